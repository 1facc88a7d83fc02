// SPDX-License-Identifier: Apache-2.0

package changefeed

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// modelTable is a table whose physical partitions split and merge. Each partition has a separate clock, like a leader.
type modelTable struct {
	// begins holds the first ring position of each physical partition. clocks holds the stamp of each partition's last
	// commit.
	begins []uint64
	clocks []int64
	log    []Entry
}

func (w *modelTable) at(ring uint64) int {
	i, found := slices.BinarySearch(w.begins, ring)
	if !found {
		i--
	}
	return i
}

// commit writes a row with a key at a ring position.
func (w *modelTable) commit(ring uint64, key string, step int64) {
	p := w.at(ring)
	w.clocks[p] += step
	w.log = append(w.log, Entry{Token: token.AtPosition(ring), Key: []byte(key), Stamp: w.clocks[p],
		Clustering: fmt.Append(nil, len(w.log))})
}

func (w *modelTable) split(at uint64) {
	if i, found := slices.BinarySearch(w.begins, at); !found {
		w.begins = slices.Insert(w.begins, i, at)
		w.clocks = slices.Insert(w.clocks, i, w.clocks[i-1])
	}
}

func (w *modelTable) merge(i int) {
	w.clocks[i] = max(w.clocks[i], w.clocks[i+1])
	w.begins, w.clocks = slices.Delete(w.begins, i+1, i+2), slices.Delete(w.clocks, i+1, i+2)
}

// read executes a read in the same way as the coordinator.
func (w *modelTable) read(q *command.Read, v command.Visitor) {
	in := func(ring uint64) bool {
		return q.Key == nil && q.Range.Contains(token.AtPosition(ring)) || q.Key != nil && ring == q.Token.Position()
	}
	if q.Changes.Horizon {
		for i, begin := range w.begins {
			stamp := binary.BigEndian.AppendUint64(nil, uint64(w.clocks[i]))
			if q.Key != nil {
				if i == w.at(q.Token.Position()) {
					_, _ = v.Partition(q.Token, q.Key, nil)
					_, _ = v.Row(stamp, &row.Row{})
				}
				continue
			}
			part := token.Range{Begin: begin}
			if i+1 < len(w.begins) {
				part.Limit = w.begins[i+1]
			}
			if r, ok := q.Range.Intersect(part); ok {
				_, _ = v.Partition(token.AtPosition(r.Begin), []byte{}, nil)
				_, _ = v.Row(stamp, &row.Row{})
			}
		}
		return
	}
	log := slices.Clone(w.log)
	slices.SortStableFunc(log, func(a, b Entry) int {
		if c := keys.At(a.Token, a.Key).Compare(keys.At(b.Token, b.Key)); c != 0 {
			return c
		}
		return int(a.Stamp - b.Stamp)
	})
	last := ""
	for _, e := range log {
		if !in(e.Token.Position()) || q.Key != nil && string(q.Key) != string(e.Key) || e.Stamp <= q.Changes.After ||
			e.Stamp > q.Changes.Upto {
			continue
		}
		rest := append(binary.BigEndian.AppendUint64(nil, uint64(e.Stamp)), e.Clustering...)
		if q.AfterKey != nil {
			c := keys.At(e.Token, e.Key).Compare(keys.At(q.AfterToken, q.AfterKey))
			if c < 0 || c == 0 && (q.AfterPartition || slices.Compare(rest, q.AfterClustering) <= 0) {
				continue
			}
		}
		if place := fmt.Sprint(e.Token, string(e.Key)); place != last {
			last = place
			step, _ := v.Partition(e.Token, e.Key, nil)
			if step == command.NextPartition {
				last = "" // later entries of the partition are skipped one by one
				continue
			}
		}
		if step, _ := v.Row(rest, &row.Row{}); step == command.Stop {
			return
		}
	}
}

// Read implements Source.
func (w *modelTable) Read(_ context.Context, q *command.Read, visitor func() command.Visitor) error {
	w.read(q, visitor())
	return nil
}

// Holds implements Source.
func (w *modelTable) Holds(token.Token, []byte) bool { return true }

// Late implements Source.
func (w *modelTable) Late() bool { return false }

// TestRounds checks (CF1) and (CF2) during writes to partitions with separate clocks. The partitions are split and
// merged. A feed of the whole ring must return every commit once, as must a feed that two feeds of half the scope
// continue. The changes of each key must be in order, regardless of the page size.
func TestRounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &modelTable{begins: []uint64{0}, clocks: []int64{0}}
		places := []uint64{0, 1, 5, 5, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1}
		reader := func(at Token, r token.Range) *Reader {
			return &Reader{At: at, Query: command.Read{Range: r}, BytesMax: 1 << 20, Source: w}
		}
		feeds := []*Reader{reader(Beginning(0, false), token.Full)}
		seen := map[string]bool{}
		newest := map[string]int64{}
		page := func(f *Reader) bool {
			f.Max = rapid.IntRange(1, 7).Draw(t, "max")
			entries, ended, err := f.Page(context.Background())
			if err != nil || len(entries) > f.Max {
				t.Fatalf("%d entries, %v", len(entries), err)
			}
			for _, e := range entries {
				id, k := string(e.Clustering), string(e.Key)
				if seen[id] || e.Stamp <= newest[k] {
					t.Fatalf("%s of key %s at %d comes twice, or after %d", id, k, e.Stamp, newest[k])
				}
				seen[id], newest[k] = true, e.Stamp
			}
			if f.At, err = DecodeToken(f.At.Append(nil)); err != nil {
				t.Fatal(err)
			}
			return ended && len(entries) == 0
		}
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				i := rapid.IntRange(0, len(places)-1).Draw(t, "place")
				w.commit(places[i], fmt.Sprint("k", i), rapid.Int64Range(1, 9).Draw(t, "step"))
			},
			"split": func(t *rapid.T) { w.split(rapid.SampledFrom(places).Draw(t, "at")) },
			"merge": func(t *rapid.T) {
				if n := len(w.begins); n > 1 {
					w.merge(rapid.IntRange(0, n-2).Draw(t, "left"))
				}
			},
			"page": func(t *rapid.T) { page(rapid.SampledFrom(feeds).Draw(t, "feed")) },
			"divide": func(t *rapid.T) {
				if f := feeds[0]; len(feeds) == 1 {
					at := rapid.SampledFrom(places[1:]).Draw(t, "divide at")
					feeds = []*Reader{reader(f.At, token.Range{Limit: at}), reader(f.At, token.Range{Begin: at})}
				}
			},
		})
		for _, f := range feeds {
			for !page(f) {
			}
		}
		if len(seen) != len(w.log) {
			t.Fatalf("%d of %d commits came", len(seen), len(w.log))
		}
	})
}

// TestTokens checks that malformed tokens are rejected and that start times are converted to stamps. A feed that starts
// at the current time must begin with an empty page.
func TestTokens(t *testing.T) {
	t.Parallel()
	at := Since(7, true, time.Unix(100, 0))
	at.Generation = 300
	at.until, at.place = marks{{stamp: 5}}, &place{ring: 3, key: []byte("k"), clustering: []byte{}}
	b := at.Append(nil)
	for n := range b {
		if _, err := DecodeToken(b[:n]); err == nil {
			t.Errorf("the first %d bytes of a token are taken", n)
		}
	}
	back, err := DecodeToken(b)
	if err != nil || back.Table != 7 || !back.Kept || back.AsOf != 100 || back.Generation != 300 ||
		back.since[0].stamp != 100_000_000-1 ||
		back.place.clustering == nil {
		t.Errorf("%+v, %v", back, err)
	}
	if at.Above(100_000_007); at.since[0].stamp != 100_000_007 {
		t.Errorf("above a later stamp: %+v", at.since)
	}
	if at.Above(3); at.since[0].stamp != 100_000_007 {
		t.Errorf("above an earlier stamp: %+v", at.since)
	}
	if now := Now(7, true, 50); true {
		if now.Above(3); !now.fresh() {
			t.Errorf("a feed from now does not begin now: %+v", now.since)
		}
	}
	w := &modelTable{begins: []uint64{0, 1 << 63}, clocks: []int64{4, 9}}
	f := &Reader{At: Now(7, false, 50), Query: command.Read{Range: token.Full}, Max: 1, BytesMax: 1, Source: w}
	w.commit(1, "old", 1)
	page, ended, err := f.Page(t.Context())
	if len(page) > 0 || !ended || err != nil {
		t.Errorf("%v, %v, %v", page, ended, err)
	}
	w.commit(1, "new", 1)
	if page, _, err = f.Page(t.Context()); len(page) != 1 || string(page[0].Key) != "new" || err != nil {
		t.Errorf("%v, %v", page, err)
	}
}
