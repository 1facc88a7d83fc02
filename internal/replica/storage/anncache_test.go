// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/vector"
)

const nearIndex = testIndex | keys.OrderedIndex

// nearTable is the test table with a vector index on column 1 that has one list.
func nearTable() Table { return nearTableOf(1) }

// nearTableOf returns the test table with lists of several generations, newest first.
func nearTableOf(generations ...uint32) Table {
	var all []*vector.Lists
	for _, g := range generations {
		lists := vector.NewLists(vector.Euclidean, 4)
		lists.Generation = g
		all = append(all, lists)
	}
	holds := func(r *row.Row, entry []byte) bool {
		c := r.Cell(1)
		return c != nil && slices.ContainsFunc(all, func(l *vector.Lists) bool {
			return l.Holds(entry, vector.ReadVector(nil, c.Value))
		})
	}
	return Table{ID: testTable, Clustering: 1, Indexes: []Index{{ID: nearIndex, Holds: holds, Column: 1, Lists: all}}}
}

// nearInsert writes a row with a vector.
func nearInsert(pk string, v []float32, ts int64) command.Mutation {
	m := mutation(pk, "c", ts, func(b *row.Builder) {
		b.Live(0, 0)
		b.Cell(1, nil, vector.AppendVector(nil, v), 0, 0)
	})
	entry := nearTable().Indexes[0].Lists[0].AppendEntry(nil, v, m.Token.Position())
	m.Ops = append(m.Ops, command.Op{Kind: command.OpIndex, Index: nearIndex, Value: entry,
		Clustering: m.Ops[0].Clustering})
	return m
}

func drawVector(rnd *rand.Rand) []float32 {
	return []float32{rnd.Float32(), rnd.Float32(), rnd.Float32(), rnd.Float32() + 0.1}
}

// nearFound returns the number of rows that a search finds.
type nearFound struct {
	key   string
	times map[string]int
}

func (f *nearFound) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	f.key = string(key)
	return command.More, nil
}

func (f *nearFound) Row([]byte, *row.Row) (command.Step, error) {
	f.times[f.key]++
	return command.More, nil
}

// searchNear searches a range of the ring completely.
func searchNear(s *Store, r token.Range) (map[string]int, error) {
	f := nearFound{times: map[string]int{}}
	return f.times, s.Read(context.Background(), &command.Read{Table: testTable, Range: r, Now: 1,
		Index: &command.IndexLookup{Index: nearIndex, Vector: vector.AppendVector(nil, []float32{1, 0, 0, 1}),
			Generation: 1}}, &f)
}

// TestPackedListsLackNothing checks that a search finds each row whose write was acknowledged before the search began,
// with concurrent writes and searches. Lists that were packed earlier must not be used.
func TestPackedListsLackNothing(t *testing.T) {
	s := openMem(t, Options{})
	s.InstallTable(nearTable())
	const writers, each = 2, 150
	var acknowledged [writers]atomic.Int64
	var writing, searching sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range each {
				if err := s.Apply(nearInsert(fmt.Sprint(w, ".", i), drawVector(rnd), 1)); err != nil {
					t.Error(err)
				}
				acknowledged[w].Store(int64(i + 1))
			}
		})
	}
	for range 3 {
		searching.Go(func() {
			for last := false; !last; {
				select {
				case <-done:
					last = true
				default:
				}
				var want [writers]int64
				for w := range writers {
					want[w] = acknowledged[w].Load()
				}
				found, err := searchNear(s, token.Range{})
				if err != nil {
					t.Error(err)
				}
				for w := range writers {
					for i := range want[w] {
						if key := fmt.Sprint(w, ".", i); found[key] != 1 {
							t.Errorf("row %s was found %d times", key, found[key])
							return
						}
					}
				}
			}
		})
	}
	writing.Wait()
	close(done)
	searching.Wait()
	if s.Metrics().ANNCacheBytes == 0 {
		t.Error("no list was packed")
	}
}

// TestPackedListsFindTheSame checks that searches of the whole ring and of its parts find each row with a vector once,
// and no other row. The test makes random changes, deletions, and sweeps. The test covers packed lists, insufficient
// memory for packed lists, and no packed lists.
func TestPackedListsFindTheSame(t *testing.T) {
	for _, most := range []int64{1 << 20, 100, -1} {
		s := openMem(t, Options{ANNCacheBytes: most})
		s.InstallTable(nearTable())
		if err := own(s); err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(2, 2))
		live := map[string]bool{}
		for i := range 400 {
			key, ts := strconv.Itoa(rnd.IntN(60)), int64(i+1)
			switch rnd.IntN(10) {
			case 0, 1:
				apply(t, s, remove(key, "c", ts, 1))
				delete(live, key)
			case 2:
				sweepEntries(t, s)
			default:
				apply(t, s, nearInsert(key, drawVector(rnd), ts))
				live[key] = true
			}
			r := token.Range{}
			if rnd.IntN(2) == 0 {
				r.Begin = rnd.Uint64()
				r.Limit = r.Begin + min(^r.Begin, packSpan>>4<<rnd.IntN(8))
			}
			want := map[string]int{}
			for k := range live {
				if at := token.Hash([]byte(k)).Position(); at >= r.Begin && at <= r.Limit-1 {
					want[k] = 1
				}
			}
			got, err := searchNear(s, r)
			if err != nil || !maps.Equal(got, want) {
				t.Fatalf("memory %d, step %d: found %v, not %v: %v", most, i, got, want, err)
			}
		}
		if got := s.Metrics().ANNCacheBytes; most > 1000 != (got > 0) {
			t.Errorf("%d bytes are packed of %d", got, most)
		}
	}
}

// TestNearComesToAll checks that an unlimited search finds each row once, with and without packed lists. The table has
// more rows than the search holds at a time, and many rows have the same distance.
func TestNearComesToAll(t *testing.T) {
	for _, most := range []int64{1 << 20, -1} {
		s := openMem(t, Options{ANNCacheBytes: most})
		s.InstallTable(nearTable())
		rnd := rand.New(rand.NewPCG(4, 4))
		want := map[string]int{}
		var v []float32
		for i := range 3000 {
			if i%500 < 200 {
				v = drawVector(rnd)
			}
			key := strconv.Itoa(i)
			want[key] = 1
			apply(t, s, nearInsert(key, v, 1))
		}
		for range 2 {
			if got, err := searchNear(s, token.Range{}); err != nil || !maps.Equal(got, want) {
				t.Fatalf("memory %d: found %d rows of %d: %v", most, len(got), len(want), err)
			}
		}
	}
}

// TestPackedListsHearOfArrivals checks that a search finds the vectors of a received replica snapshot, even if the
// lists were packed before.
func TestPackedListsHearOfArrivals(t *testing.T) {
	a, b := openParts(t, vfs.NewMem(), Options{}), openParts(t, vfs.NewMem(), Options{})
	rnd := rand.New(rand.NewPCG(3, 3))
	for i, s := range []*Store{a, b} {
		defer closeStore(t, s)
		s.InstallTable(nearTable())
		createPartition(t, s, 1, keys.Span{Table: testTable})
		for k := range 20 {
			apply(t, s, nearInsert(fmt.Sprint(i, ".", k), drawVector(rnd), 1))
		}
		if found, err := searchNear(s, token.Range{}); err != nil || len(found) != 20 ||
			s.Metrics().ANNCacheBytes == 0 {
			t.Fatalf("found %v: %v", found, err)
		}
	}
	if err := b.InstallSnapshot(context.Background(), keys.Span{Table: testTable},
		bytes.NewReader(snapshotBytes(t, a, 1)), nil); err != nil {
		t.Fatal(err)
	}
	want, err := searchNear(a, token.Range{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := searchNear(b, token.Range{}); err != nil || !maps.Equal(got, want) {
		t.Errorf("found %v, not %v: %v", got, want, err)
	}
}

// TestPackedListsAreBounded checks that packed lists stay within their memory limit, and that the least recently used
// list is dropped first. The mark of a list that is too large must survive writes, but not the arrival of a snapshot.
func TestPackedListsAreBounded(t *testing.T) {
	var c annCache
	c.init(3000)
	key := func(i int) packKey { return packKey{nearIndex, [packHead]byte{1, 1, byte(i)}} }
	for i := range 3 {
		c.put(&pack{key: key(i), places: make([]byte, 600)})
	}
	c.get(key(0))
	c.put(&pack{key: key(3), places: make([]byte, 900)})
	kept := []bool{c.get(key(0)) != nil, c.get(key(1)) != nil, c.get(key(2)) != nil, c.get(key(3)) != nil}
	if !slices.Equal(kept, []bool{true, false, true, true}) || c.size() != 2*856+1156 {
		t.Errorf("kept %v, %d bytes", kept, c.size())
	}
	c.put(&pack{key: key(0), places: make([]byte, 3000)})
	if c.get(key(0)) != nil || c.size() > 3000 {
		t.Errorf("a list larger than all memory is kept")
	}
	c.put(&pack{key: key(5), stamp: c.now(), large: true})
	k := key(5)
	if c.added(k.slot()); c.get(key(5)) == nil {
		t.Error("a write has removed the mark")
	}
	if c.arrive(); c.get(key(5)) != nil || c.get(key(3)) != nil {
		t.Error("a packed list survived the arrival of a snapshot")
	}
	if c.size() > 3000 || len(c.packs) != c.order.Len() {
		t.Errorf("%d bytes, %d lists of %d", c.size(), len(c.packs), c.order.Len())
	}
}
