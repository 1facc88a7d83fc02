// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// bill is a visitor that accepts a maximum number of rows (0 means all) and receives the cost.
type bill struct {
	most, rows int
	units      ru.Units
}

func (b *bill) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

func (b *bill) Row([]byte, *row.Row) (command.Step, error) {
	if b.rows++; b.rows == b.most {
		return command.Stop, nil
	}
	return command.More, nil
}

func (b *bill) Charge(u ru.Units) { b.units += u }

// bills holds the priced reads by name: reads of keys, of slices, and of both halves of the ring.
func bills() map[string]*command.Read {
	out := map[string]*command.Read{}
	for i := range 30 {
		k := fmt.Appendf(nil, "k%d", i)
		c := command.Read{Table: testTable, Key: k, Token: token.Hash(k), Now: 1000, Level: dberr.One}
		out["all of "+string(k)] = &c
		c1, c2, c3 := c, c, c
		c1.Slices = []command.Slice{{Start: []byte("c03"), End: []byte("c04")}}
		out["a row of "+string(k)] = &c1
		c2.Reversed, c2.Limit = true, 3
		out["three rows of "+string(k)] = &c2
		c3.Level = dberr.Serial
		out["SERIAL "+string(k)] = &c3
	}
	left := topology.Position{Ring: 1 << 63}.Ring
	for name, c := range map[string]command.Read{
		"left half":          {Range: token.Range{Limit: left}},
		"right half":         {Range: token.Range{Begin: left}},
		"keys of left half":  {Range: token.Range{Limit: left}, NoRows: true},
		"keys of right half": {Range: token.Range{Begin: left}, NoRows: true},
	} {
		c.Table, c.Now, c.Level = testTable, 1000, dberr.One
		out[name] = &c
	}
	return out
}

// prices returns the cost of each read on the replicas of a node.
func (w *testCluster) prices(node int, ids ...topology.PartitionID) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for name, c := range bills() {
		w.until(name, func() bool {
			for _, id := range ids {
				r := w.replica(node, id)
				read := r.ReadHere
				b := bill{most: c.Limit}
				err := read(context.Background(), c, &b)
				if _, wrong := errors.AsType[*WrongRange](err); wrong {
					continue // the other partition contains the key
				}
				if c.Key == nil && b.rows == 0 && !c.NoRows && len(ids) > 1 {
					continue // the other half of the ring
				}
				if c.NoRows && b.units == ru.Partition && len(ids) > 1 {
					continue
				}
				out[name] = fmt.Sprintf("%d rows: %d", b.rows, b.units)
				return err == nil
			}
			return false
		})
	}
	return out
}

// TestPriceIsTheSameEverywhere checks that a read has exactly the same cost on the leader and on followers (R1). The
// cost must not change after a flush, a compaction, a sweep of deleted rows, or a split. Many of the rows have been
// overwritten or deleted, or have expired.
func TestPriceIsTheSameEverywhere(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	random := rand.New(rand.NewPCG(9, 9))
	var stored [][]byte
	for i := range 600 {
		k, ck := fmt.Appendf(nil, "k%d", random.IntN(30)), fmt.Appendf(nil, "c%02d", random.IntN(12))
		var b row.Builder
		b.Reset(row.Unstamped)
		switch i % 6 {
		case 0:
			b.DeleteRow(900)
		case 1:
			b.Cell(1, nil, make([]byte, random.IntN(300)), 10, 950) // the cell has expired
		default:
			b.Live(0, row.NoExpiry)
			b.Cell(uint32(1+random.IntN(3)), nil, make([]byte, random.IntN(3000)), 0, row.NoExpiry)
		}
		m := &command.Mutation{Table: testTable, Token: token.Hash(k), Key: k,
			Ops: []command.Op{{Clustering: ck, Operand: b.Append(nil)}}}
		stored = append(stored, keys.AppendRow(nil, testTable, m.Token, k, ck))
		if err := w.request(p.ID, func(r *Replica, _ func(*command.Mutation)) error {
			return write(context.Background(), r, m)
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.same(p.ID, 0, 1, 2)
	want := w.prices(w.leader(p.ID), p.ID)
	if len(want) != len(bills()) {
		t.Fatalf("%d prices", len(want))
	}
	same := func(when string, ids ...topology.PartitionID) {
		t.Helper()
		for i := range w.nodes {
			if diff := cmp.Diff(want, w.prices(i, ids...)); diff != "" {
				t.Errorf("%s, node %d: %s", when, i, diff)
			}
		}
	}
	same("in memtables", p.ID)
	compact := func() {
		for _, n := range w.nodes {
			if err := n.store.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	compact()
	same("compacted", p.ID)
	if err := w.request(p.ID, func(r *Replica, _ func(*command.Mutation)) error {
		done := make(result, 1)
		s := &command.Sweep{Table: testTable, Keys: stored, Horizon: 1000}
		if err := r.Control().SweepLatched(t.Context(), s, done); err != nil {
			return err
		}
		return <-done
	}); err != nil {
		t.Fatal(err)
	}
	w.same(p.ID, 0, 1, 2)
	compact()
	same("swept", p.ID)
	w.split(p.ID, splitAt(halfway, childID, 0, 1, 2))
	w.same(childID, 0, 1, 2)
	w.same(p.ID, 0, 1, 2)
	same("split", p.ID, childID)
}

// borrower is a finder on a node whose replica is a follower.
type borrower struct {
	rowCollector
	lent ru.Units
}

func (b *borrower) Lent(u ru.Units) { b.lent = u }

// TestThroughputInReplicaSet checks a partition with provisioned throughput. A follower must spend its borrowed units,
// and the leader must lend the requested units. A leader without remaining budget must reject blind writes, conditional
// writes, batches, reads, and the timestamp of a recorded batch. It must not reject repeated requests. The two
// partitions created by a split must share its throughput from the start.
func TestThroughputInReplicaSet(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	if err := w.write(p.ID, "k", 1); err != nil {
		t.Fatal(err)
	}
	bound := func(perSecond int64) {
		for _, n := range w.nodes {
			n.host.Load().SetThroughputs(Throughputs{PerSecond: map[topology.PartitionID]int64{p.ID: perSecond}})
		}
	}
	bound(10_000)
	lead := w.leader(p.ID)
	r, f := w.replica(lead, p.ID), w.replica((lead+1)%3, p.ID)
	if _, _, err := get(t.Context(), f, "k", dberr.One); !errors.As(err, new(*NotLeader)) {
		t.Errorf("ONE at a follower: %v", err)
	}
	if v, _, err := get(t.Context(), r, "k", dberr.One); v != 1 || err != nil {
		t.Errorf("ONE at the leader: %d, %v", v, err)
	}
	asks := &borrower{rowCollector: rowCollector{refs: []command.RowRef{{}}, found: make([]*row.Row, 1)}}
	c := asks.read(&command.Conditional{Mutation: *put("k", 1), Rows: asks.refs})
	c.Owed, c.Wanted = int64(3*ru.Unit), int64(20*ru.Unit)
	// The leader lends half of its balance. Its node has just started, so it has no savings.
	w.until("the leader lends what it is asked for", func() bool {
		if err := r.Read(t.Context(), c, asks); err != nil {
			t.Fatal(err)
		}
		return asks.lent == 23*ru.Unit
	})
	w.until("a fresh follower answers with what it was lent", func() bool {
		if !f.Throughput().AllowsLocalRead(fairshare.Principal{}) {
			f.Throughput().Lent(ru.Unit, 0)
		}
		v, _, err := get(t.Context(), f, "k", dberr.One)
		return err == nil && v == 1
	})
	if _, _, err := get(t.Context(), f, "k", dberr.One); !errors.As(err, new(*NotLeader)) {
		t.Errorf("ONE on a follower without remaining units: %v", err)
	}
	f.Throughput().Refused(fairshare.Principal{}, time.Hour)
	if _, _, err := get(t.Context(), f, "k", dberr.One); !errors.As(err, new(*dberr.Overloaded)) {
		t.Errorf("ONE on a rejected follower: %v", err)
	}
	if n := f.Load().Counts().Throttled; n != 1 {
		t.Errorf("a follower counts %d refusals", n)
	}
	w.split(p.ID, splitAt(halfway, childID, 0, 1, 2))
	child := w.replica(w.leader(childID), childID)
	r = w.replica(w.leader(p.ID), p.ID)
	halves := func(when string, want int64) {
		if a, b := r.throughput.budget.PerSecond(), child.throughput.budget.PerSecond(); a != want || b != want {
			t.Errorf("%s the halves of a split take %d and %d RU/s, want %d", when, a, b, want)
		}
	}
	halves("from their birth", 5_000)
	for _, n := range w.nodes {
		n.host.Load().SetThroughputs(Throughputs{
			PerSecond: map[topology.PartitionID]int64{p.ID: 8_000, childID: 4_000},
			Children:  map[topology.PartitionID]topology.PartitionID{p.ID: childID},
		})
	}
	halves("while the map does not have it", 4_000)
	r.throughput.budget.Charge(fairshare.Principal{}, 1e6*ru.Unit)
	key := "k"
	for i := 0; !r.state.Load().serves(put(key, 1).Position()); i++ {
		key = fmt.Sprint("k", i)
	}
	throttled := r.Load().Counts().Throttled
	for name, ask := range map[string]func() error{
		"a write":     func() error { return write(t.Context(), r, put(key, 2)) },
		"a condition": func() error { _, err := decide(t.Context(), r, swap(key, nil, 3)); return err },
		"a batch": func() error {
			return r.WriteAll(t.Context(), []Part{{Mutation: put(key, 4)}}, make(result, 1))
		},
		"a read": func() error { _, _, err := get(t.Context(), r, key, dberr.Quorum); return err },
		"the stamp of a batch": func() error {
			_, err := r.Last(t.Context(), r.Extent(), fairshare.Principal{})
			return err
		},
	} {
		if busy, ok := errors.AsType[*dberr.Overloaded](ask()); !ok || busy.RetryAfter < time.Second {
			t.Errorf("%s: %+v", name, busy)
		}
	}
	if n := r.Load().Counts().Throttled - throttled; n != 5 {
		t.Errorf("%d were refused, want 5", n)
	}
	again := put(key, 5)
	again.Dedupe, again.Retried, again.Known = w.dedupe(), true, r.host.DedupeEpoch()
	if err := write(t.Context(), r, again); errors.As(err, new(*dberr.Overloaded)) {
		t.Error("a command that may have been applied is rejected")
	}
}
