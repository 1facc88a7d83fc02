// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestSegment checks that a segment and its name survive encoding. Every changed byte must be detected.
func TestSegment(t *testing.T) {
	at := time.Date(2026, 11, 26, 1, 2, 3, 4e6, time.UTC)
	s := &Segment{Cluster: "c", Previous: FileName(nil), RestorePoints: []RestorePoint{{Time: at},
		{Time: at.Add(time.Second)}}}
	var b Builder
	want := ""
	for mark := range 2 {
		for i := range 50 {
			key := AppendKey(nil, mark, fmt.Appendf([]byte{0, 0, 4, 0}, "key %02d", i))
			if err := b.Add(key, bytes.Repeat([]byte{byte(i)}, i)); err != nil {
				t.Fatal(err)
			}
			want += fmt.Sprintf("%d 1024 key %02d %d\n", mark, i, i)
		}
		s.Add(&b)
		b = Builder{}
	}
	data, sum, name, err := s.Encode(true)
	if err != nil {
		t.Fatal(err)
	}
	back, again, err := DecodeSegment(data)
	if err != nil || again != sum || len(back.RestorePoints) != 2 || back.Previous != s.Previous {
		t.Fatalf("%+v %v", back, err)
	}
	got := ""
	err = back.Each(func(mark int, table uint32, key, value []byte) error {
		got += fmt.Sprintf("%d %d %s %d\n", mark, table, key, len(value))
		return nil
	})
	if err != nil || got != want {
		t.Errorf("%v: %s", err, got)
	}
	parsed, ok := ParseSegmentName(name.String())
	if !ok || parsed != name || !parsed.Last.Equal(at.Add(time.Second)) || !parsed.HasMetadata {
		t.Errorf("the name %s is %+v", &name, parsed)
	}
	for _, bad := range []string{"", "x", name.String() + "x", "manifest", "a-b-c-d-e"} {
		if _, ok := ParseSegmentName(bad); ok {
			t.Errorf("%q is accepted as the name of a segment", bad)
		}
	}
	for i := range data {
		worse := bytes.Clone(data)
		worse[i] ^= 1
		if _, _, err := DecodeSegment(worse); err == nil {
			t.Errorf("a change of byte %d was not detected", i)
		}
	}
	if _, _, err := DecodeSegment(data[:len(data)/2]); !errors.Is(err, ErrDamaged) {
		t.Errorf("half of a segment: %v", err)
	}
}

// TestEntries checks that commands are decoded in order with the status of each range. A truncated response must be
// rejected.
func TestEntries(t *testing.T) {
	var e Entries
	for i := range uint64(5) {
		e.Add(7, 11+i, bytes.Repeat([]byte{byte(i)}, int(i)*100))
	}
	e.Status = []EntryStatus{{Upto: 15}, {Missing: true}}
	data, err := e.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeEntries(data)
	if err != nil || len(back.Status) != 2 || back.Status[0] != e.Status[0] || back.Status[1] != e.Status[1] {
		t.Fatalf("%+v %v", back, err)
	}
	n := uint64(0)
	err = back.Each(func(partition, index uint64, c []byte) error {
		if partition != 7 || index != 11+n || len(c) != int(n)*100 {
			t.Errorf("entry %d of partition %d has %d bytes", index, partition, len(c))
		}
		n++
		return nil
	})
	if err != nil || n != 5 {
		t.Errorf("%d came back: %v", n, err)
	}
	cut, err := DecodeEntries(data[:len(data)-1])
	if err == nil {
		err = cut.Each(func(_, _ uint64, _ []byte) error { return nil })
	}
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("a truncated response: %v", err)
	}
}
