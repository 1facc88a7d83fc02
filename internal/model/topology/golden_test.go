// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// TestStoredBytes pins the encoding of the topology's records and of the whole topology. These bytes are stored on
// disk.
func TestStoredBytes(t *testing.T) {
	s := New()
	for _, change := range []func() (*Snapshot, error){
		func() (*Snapshot, error) { return s.AddTable(2000, 2, places) },
		func() (*Snapshot, error) { return s.AddMeta(places) },
		func() (*Snapshot, error) {
			next, _, err := s.AddMember(s.Partitions(2000)[1].ID, "here", NodeID{9}, Learner)
			return next, err
		},
	} {
		next, err := change()
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"header", s.AppendHeader(nil),
			"0304030b0000"},
		{"partition", AppendPartition(nil, s.Partitions(2000)[1]),
			"03d00f8000000000000000000000000000000000000101000104686572650404040100000000000000000000000000000000" +
				"0502000000000000000000000000000000000603000000000000000000000000000000000a09000000000000000000000000" +
				"000000030000"},
		{"meta", AppendPartition(nil, s.Meta()),
			"0303000000000000000000000000000000000000010000010468657265070307010000000000000000000000000000000008" +
				"02000000000000000000000000000000000903000000000000000000000000000000000000"},
		{"whole", s.Append(nil),
			"03060304030b0000038080808080808080405703030000000000000000000000000000000000000100000104686572650703" +
				"0701000000000000000000000000000000000802000000000000000000000000000000000903000000000000000000000000" +
				"000000000000015803d00f000000000000000000800000000000000000010000010468657265010301010000000000000000" +
				"00000000000000000202000000000000000000000000000000000303000000000000000000000000000000000000026a03d0" +
				"0f80000000000000000000000000000000000001010001046865726504040401000000000000000000000000000000000502" +
				"000000000000000000000000000000000603000000000000000000000000000000000a090000000000000000000000000000" +
				"00030000"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestMapOfLaterBuilds checks that this build preserves fields from later builds when it changes the topology. The
// test checks fields of the topology, its partitions, and their replica sets. The test also checks that an unknown
// version of the encoding is rejected as newer.
func TestMapOfLaterBuilds(t *testing.T) {
	s, err := New().AddTable(2000, 1, places)
	if err != nil {
		t.Fatal(err)
	}
	later := func(text string) []byte {
		var w codec.Writer
		w.Field(70, false, []byte(text))
		return w
	}
	s.rest = later("map")
	p := *s.Partitions(2000)[0]
	p.rest, p.Sets = later("partition"), slices.Clone(p.Sets)
	p.Sets[0].rest = later("set")
	draft{s}.replace(2000, 0, 1, &p)
	if s, err = Decode(s.Append(nil)); err != nil {
		t.Fatal(err)
	}
	if s, _, err = s.AddMember(p.ID, "here", NodeID{9}, Learner); err == nil {
		s, err = split(s.WithLevel(3), p.ID, Position{Ring: 9})
	}
	if err != nil {
		t.Fatal(err)
	}
	b := s.Append(nil)
	for text, n := range map[string]int{"map": 1, "partition": 2, "set": 2} {
		if bytes.Count(b, []byte(text)) != n {
			t.Errorf("got %q %d times, want %d", text, bytes.Count(b, []byte(text)), n)
		}
	}
	if s, err = Decode(b); err != nil || s.Level() != 3 {
		t.Errorf("%v", err)
	}
	b[0]++
	if _, err := Decode(b); !errors.Is(err, feature.ErrNewer) {
		t.Errorf("%v", err)
	}
}
