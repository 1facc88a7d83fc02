// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// disturbed is a visitor that runs a function before its first row.
type disturbed struct {
	do   func()
	rows int
}

func (d *disturbed) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	if d.rows == 0 {
		d.do()
	}
	return command.More, nil
}

func (d *disturbed) Row([]byte, *row.Row) (command.Step, error) {
	d.rows++
	return command.More, nil
}

// TestReadByDroppedIndex checks that a read by an index fails if the index is dropped before or during the read, for
// every form of lookup. A read that uses an index that is not installed in the store yet must find the entries.
func TestReadByDroppedIndex(t *testing.T) {
	const plain, ordered = testIndex, testIndex | keys.OrderedIndex
	value := []byte("v")
	holds := func(*row.Row, []byte) bool { return true }
	with := Table{ID: testTable, Clustering: 1, Indexes: []Index{{ID: plain, Holds: holds}, {ID: ordered, Holds: holds,
		Value: func(*row.Row, []byte) []byte { return value }}}}
	without := Table{ID: testTable, Clustering: 1}
	for name, look := range map[string]command.IndexLookup{
		"value":        {Index: plain, Value: value},
		"alternatives": {Index: plain, Any: [][][]byte{{value}}},
		"range":        {Index: ordered, Value: value, End: []byte("w")},
		"terms": {Index: ordered, All: []command.IndexTerm{{Index: ordered, Value: value},
			{Index: ordered, Value: []byte("a"), End: []byte("z")}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openMem(t, Options{})
			s.InstallTable(with)
			for i := range 100 {
				m := insert(fmt.Sprint(i), "c", 1)
				for _, index := range []uint32{plain, ordered} {
					m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: index, Value: value,
						Clustering: m.Ops[0].Clustering})
				}
				apply(t, s, m)
			}
			read := func(do func()) (int, error) {
				v := disturbed{do: do}
				err := s.Read(context.Background(), &command.Read{Table: testTable, Now: 1, Index: &look}, &v)
				return v.rows, err
			}
			drop := func() {
				s.InstallTable(without)
				for _, index := range []uint32{plain, ordered} {
					if err := s.DropIndex(index); err != nil {
						t.Fatal(err)
					}
				}
			}
			s.KnowIDs(testIndex)
			if n, err := read(func() {}); n != 100 || err != nil {
				t.Errorf("an index that is installed and new: %d rows, %v", n, err)
			}
			s.KnowIDs(testIndex + 1)
			if n, err := read(func() {}); n != 100 || err != nil {
				t.Errorf("an index that is installed: %d rows, %v", n, err)
			}
			if _, err := read(drop); !errors.Is(err, ErrNoIndex) {
				t.Errorf("an index that is dropped during the read: %v", err)
			}
			if _, err := read(func() {}); !errors.Is(err, ErrNoIndex) {
				t.Errorf("an index that was dropped before the read: %v", err)
			}
		})
	}
	s := openMem(t, Options{})
	s.InstallTable(without)
	s.KnowIDs(testIndex)
	m := insert("k", "c", 1)
	m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: plain, Value: value,
		Clustering: m.Ops[0].Clustering})
	apply(t, s, m)
	v := disturbed{do: func() {}}
	look := command.IndexLookup{Index: plain, Value: value}
	err := s.Read(t.Context(), &command.Read{Table: testTable, Now: 1, Index: &look}, &v)
	if err != nil || v.rows != 1 {
		t.Errorf("an index of a newer schema: %d rows, %v", v.rows, err)
	}
}

// TestEntriesOfDroppedIndexAreSwept checks that entries that were written after their index was dropped are removed by
// the next scan of entries. Entries of installed and of newer indexes must be kept.
func TestEntriesOfDroppedIndexAreSwept(t *testing.T) {
	const dropped, kept, newer = testIndex, testIndex + 1 | keys.OrderedIndex, testIndex + 2
	s := openMem(t, Options{})
	if err := own(s); err != nil {
		t.Fatal(err)
	}
	s.InstallTable(Table{ID: testTable, Clustering: 1,
		Indexes: []Index{{ID: kept, Holds: func(*row.Row, []byte) bool { return true }}}})
	m := insert("k", "c", 1)
	for _, index := range []uint32{dropped, kept, newer} {
		m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: index, Value: []byte("v"),
			Clustering: m.Ops[0].Clustering})
	}
	apply(t, s, m)
	for _, c := range []struct {
		next uint32
		want []uint32
	}{{0, []uint32{dropped, newer, kept}}, {newer, []uint32{newer, kept}}} {
		if c.next > 0 {
			s.KnowIDs(c.next)
		}
		if err := s.SweepEntries(t.Context(), 1000, func(int) {}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Indexes(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("with IDs below %d known: entries of %v (%v), want %v", c.next, got, err, c.want)
		}
	}
}
