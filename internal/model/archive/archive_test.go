// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
)

// files builds files of n records. It returns the names of the files in order and the data of the files.
func files(t *testing.T, n int, value func(i int) []byte) (names []string, data map[string][]byte) {
	t.Helper()
	data = map[string][]byte{}
	var b Builder
	end := func() {
		names = append(names, b.File().Name)
		data[b.File().Name] = b.Data()
		b = Builder{}
	}
	for i := range n {
		if err := b.Add(binary.BigEndian.AppendUint32(nil, uint32(i)), value(i)); err != nil {
			t.Fatal(err)
		}
		if b.Full() {
			end()
		}
	}
	end()
	return names, data
}

// TestChangeStaysLocal checks that a change to one row changes only the file that contains the row, and possibly the
// next file. The test also checks that all records can be read back.
func TestChangeStaysLocal(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([][]byte, 20_000)
	for i := range values {
		values[i] = make([]byte, 500+rng.IntN(1000))
		for j := range values[i] {
			values[i][j] = byte(rng.Uint32())
		}
	}
	of := func(i int) []byte { return values[i] }
	before, data := files(t, len(values), of)
	if len(before) < 5 {
		t.Fatalf("%d files are too few for this test", len(before))
	}
	i := 0
	for _, name := range before {
		plain, err := Unpack(name, data[name])
		if err != nil {
			t.Fatal(err)
		}
		err = EachRecord(plain, func(key, value []byte) error {
			if binary.BigEndian.Uint32(key) != uint32(i) || !bytes.Equal(value, values[i]) {
				t.Fatalf("record %d differs", i)
			}
			i++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if i != len(values) {
		t.Fatalf("decoded %d records, want %d", i, len(values))
	}
	values[len(values)/2] = []byte("changed")
	after, _ := files(t, len(values), of)
	fresh := 0
	for _, name := range after {
		if data[name] == nil {
			fresh++
		}
	}
	if fresh < 1 || fresh > 2 {
		t.Errorf("%d of %d files changed with one row", fresh, len(after))
	}
}

// TestDamage checks that a flipped bit in a file or a manifest is detected, unless the bit does not affect the decoded
// data. A few bits of zstd frames do not affect the data.
func TestDamage(t *testing.T) {
	names, data := files(t, 100, func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i) })
	file := data[names[0]]
	m := Manifest{ID: "one", Tables: []Table{{Keyspace: "ks", Name: "t", ID: 1024}}}
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(text); err != nil {
		t.Fatal(err)
	}
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 1
		if plain, err := Unpack(names[0], bad); err == nil && FileName(plain) != names[0] {
			t.Errorf("a bit flip in byte %d of a file was not detected", i)
		}
	}
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		if _, err := Decode(bad); err == nil {
			t.Errorf("a bit flip in byte %d of a manifest was not detected", i)
		}
	}
	if _, err := Unpack(names[0], file[:len(file)/2]); !errors.Is(err, ErrDamaged) {
		t.Errorf("half of a file: %v", err)
	}
}

// TestAssignPartitions checks that a table with a missing or duplicate part is rejected.
func TestAssignPartitions(t *testing.T) {
	tables := func() []Table { return []Table{{Keyspace: "ks", Name: "t", ID: 1024}} }
	left := Partition{ID: 1, Table: 1024, End: []byte{5}}
	right := Partition{ID: 2, Table: 1024, Begin: []byte{5}}
	all := Partition{ID: 3, Table: 1024}
	for _, good := range [][]Partition{{right, left}, {all}} {
		if _, err := AssignPartitions(tables(), good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range [][]Partition{nil, {left}, {right}, {all, right}, {left, left, right}, {left, right, right}} {
		if _, err := AssignPartitions(tables(), bad); err == nil {
			t.Errorf("%v is accepted as a complete table", bad)
		}
	}
}
