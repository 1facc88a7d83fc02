// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// rowKey returns the key of a row without clustering columns.
func rowKey(pk string) []byte {
	return keys.AppendRow(nil, testTable, token.Hash([]byte(pk)), []byte(pk), nil)
}

// TestCollapseLosesNothing checks that concurrent writers that add elements to one row lose no elements to concurrent
// collapses and sweeps. A crash must leave a prefix of the writes.
func TestCollapseLosesNothing(t *testing.T) {
	const writers, each = 4, 300
	fs := vfs.NewCrashableMem()
	s, err := Open(fs, "db", Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.InstallTable(Table{ID: testTable})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				path := binary.BigEndian.AppendUint32(nil, uint32(w*each+i))
				m := mutation("k", "", 1, func(b *row.Builder) { b.Cell(1, path, path, 0, row.NoExpiry) })
				if err := s.Apply(m); err != nil {
					t.Error(err)
					return
				}
				if i%50 == 0 {
					if err := s.ApplySweep(&command.Sweep{Table: testTable, Keys: [][]byte{rowKey("k")},
						Horizon: 10}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := s.Metrics().Collapsed; n == 0 {
		t.Error("nothing was collapsed")
	}
	disk := fs.CrashClone(vfs.CrashCloneCfg{})
	check := func(s *Store) {
		t.Helper()
		var v elements
		if err := s.Read(t.Context(), &command.Read{Table: testTable, Key: []byte("k"), Token: token.Hash([]byte("k"))},
			&v); err != nil {
			t.Fatal(err)
		}
		if v != writers*each {
			t.Errorf("%d elements, want %d", v, writers*each)
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(disk, "db", Options{}); err != nil {
		t.Fatal(err)
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// elements returns the number of elements in column 1.
type elements int

func (v *elements) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (v *elements) Row(_ []byte, r *row.Row) (command.Step, error) {
	*v = elements(len(r.Column(1)))
	return command.More, nil
}

// TestCollapseBounds checks that a frequently written key is collapsed every collapseAfter operands, and that keys that
// are written once are not collapsed. A row that is much larger than its additions must be collapsed with decreasing
// frequency, so that the log grows linearly with the written bytes.
func TestCollapseBounds(t *testing.T) {
	s := openMem(t, Options{})
	const n = 3200
	for i := range n {
		apply(t, s, insert("hot", "", int64(i+1)))
	}
	if got := s.Metrics().Collapsed; got != n/collapseAfter {
		t.Errorf("%d collapses of a small row in %d writes, want %d", got, n, n/collapseAfter)
	}
	before := s.Metrics().Collapsed
	for i := range n {
		apply(t, s, insert(fmt.Sprint("cold", i), "", 1))
	}
	if got := s.Metrics().Collapsed; got != before {
		t.Errorf("%d collapses of keys that were written once", got-before)
	}
	written := func() uint64 { return s.db.Metrics().WAL.BytesIn }
	rng := rand.New(rand.NewPCG(1, 2))
	begun, paid := written(), 0
	for i := range 6 * n {
		m := mutation("wide", "", int64(i+1), func(b *row.Builder) {
			b.Cell(1, binary.BigEndian.AppendUint64(nil, rng.Uint64()), []byte("v"), 0, row.NoExpiry)
		})
		paid += len(m.Ops[0].Operand) + len(rowKey("wide"))
		apply(t, s, m)
	}
	if got := s.Metrics().Collapsed - before; got < 3 {
		t.Errorf("%d collapses of a growing row", got)
	}
	if got := written() - begun; got > uint64(8*paid) {
		t.Errorf("%d bytes of operands took %d bytes of log", paid, got)
	}
}

// BenchmarkHotRow measures the CPU time of reading a row that has been updated b.N times since the last flush.
func BenchmarkHotRow(b *testing.B) {
	for _, updates := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint("updates=", updates), func(b *testing.B) {
			s := openMem(b, Options{MemtableBytes: 256 << 20})
			for i := range updates {
				apply(b, s, insert("hot", "", int64(i+1)))
			}
			r := command.Read{Table: testTable, Key: []byte("hot"), Token: token.Hash([]byte("hot"))}
			for b.Loop() {
				var v silent
				if err := s.Read(b.Context(), &r, &v); err != nil || v.rows != 1 {
					b.Fatal(v.rows, err)
				}
			}
		})
	}
}
