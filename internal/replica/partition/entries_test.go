// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// metaPartition returns the meta partition with replicas on the given nodes.
func metaPartition(on ...int) *topology.Partition {
	set := topology.ReplicaSet{Region: "here"}
	for i, n := range on {
		set.Replicas = append(set.Replicas, topology.Replica{ID: topology.ReplicaID(i + 1), Node: nodeID(n)})
	}
	return &topology.Partition{ID: topology.MetaPartition, Table: topology.MetaTable, Epoch: 1,
		Sets: []topology.ReplicaSet{set}}
}

// TestRecords checks that concurrent proposers on all nodes create one history while leaders change. Each version must
// be assigned once, and each change must be based on the previous version. A replica that returns the newest version
// must return at least the newest version assigned before the query. All nodes must be notified, and a node that joins
// later must receive the complete history.
func TestRecords(t *testing.T) {
	const meta = topology.MetaPartition
	w := newTestCluster(t, 4)
	w.create(metaPartition(0, 1, 2))
	lead := w.replica(w.leader(meta), meta)
	if v, err := lead.Change(t.Context(),
		command.Records{Put: []command.Record{{Key: []byte("begin"), Value: []byte{}}}}); v != 1 ||
		err != nil {
		t.Fatal(v, err)
	}
	stop := make(chan struct{})
	var troubles, proposers sync.WaitGroup
	troubles.Go(func() { w.trouble(meta, stop) })
	var mu sync.Mutex
	given, newest := map[uint64]bool{}, uint64(0)
	var askers sync.WaitGroup
	var answers [3]atomic.Int32
	for i := range answers {
		askers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				mu.Lock()
				least := newest
				mu.Unlock()
				r := w.replica(i, meta)
				if r == nil {
					continue
				}
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				version, err := r.NewestRecords(ctx)
				cancel()
				if err != nil {
					continue
				}
				if answers[i].Add(1); version < least {
					t.Errorf("node %d: the newest version is %d, and %d was given before", i, version, least)
				}
			}
		})
	}
	// On fast machines, twenty changes may finish before the first query. Proposers therefore continue until every node
	// has responded.
	silent := func() bool {
		for i := range answers {
			if answers[i].Load() == 0 {
				return true
			}
		}
		return false
	}
	for p := range 4 {
		proposers.Go(func() {
			expect := uint64(1)
			for changes := 0; changes < 20 || changes < 2000 && silent(); {
				var version uint64
				err := w.request(meta, func(r *Replica, _ func(*command.Mutation)) (err error) {
					key := binary.BigEndian.AppendUint64([]byte("v"), expect)
					version, err = r.Change(context.Background(), command.Records{
						Expect: expect, Put: []command.Record{{Key: key, Value: []byte{byte(p)}}},
					})
					return err
				})
				var conflict *Conflict
				switch {
				case errors.As(err, &conflict):
					expect = conflict.Version
				case err != nil && !errors.Is(err, ErrUncertain):
					t.Error(err)
					return
				case err == nil:
					mu.Lock()
					if given[version] {
						t.Errorf("version %d was assigned twice", version)
					}
					given[version], newest = true, max(newest, version)
					mu.Unlock()
					expect = version
					changes++
				}
			}
		})
	}
	proposers.Wait()
	close(stop)
	troubles.Wait()
	askers.Wait()
	for i := range answers {
		if answers[i].Load() == 0 {
			t.Errorf("node %d never received the newest version", i)
		}
	}
	if len(given) < 80 {
		t.Errorf("got %d versions for 4 proposers", len(given))
	}
	if err := w.nodes[3].host.Load().Join(meta, 9); err != nil {
		t.Fatal(err)
	}
	w.until("the learner", func() bool {
		return w.replica(w.leader(meta), meta).Membership().ChangeMembers(t.Context(), learner(3, 9)) == nil
	})
	w.until("a snapshot", func() bool { return w.replica(3, meta).Applied() > 10 })
	w.same(meta, 0, 1, 2, 3)
	var first string
	told := map[uint64][]command.Record{}
	for i, n := range w.nodes {
		var all string
		version, err := n.host.Load().Records(func(key, value []byte) error {
			all += fmt.Sprintf("%x=%x ", key, value)
			return nil
		})
		if all = fmt.Sprint(version, " ", all); err != nil || i > 0 && all != first {
			t.Errorf("node %d: %v, %s\nnode 0: %s", i, err, all, first)
		}
		first = all
		n.mu.Lock()
		if len(n.records) == 0 || n.records[len(n.records)-1] != version {
			t.Errorf("node %d was notified of %v, the version is %d", i, n.records, version)
		}
		if i < 3 && len(n.puts) < 80 { // the learner's snapshot may have contained all changes
			t.Errorf("node %d was notified of %d of %d versions", i, len(n.puts), version)
		}
		for v, put := range n.puts {
			if was, ok := told[v]; ok && !reflect.DeepEqual(was, put) {
				t.Errorf("version %d was assigned by %q on one node and by %q on node %d", v, was, put, i)
			}
			told[v] = put
		}
		n.mu.Unlock()
	}
	r := w.replica(w.leader(meta), meta)
	if err := errors.Join(write(t.Context(), r, put("k", 1))); err == nil {
		t.Error("the meta partition took a row")
	}
	if _, err := r.Change(t.Context(), command.Records{Put: []command.Record{{Key: []byte{0}}}}); err == nil {
		t.Error("a change of the version itself")
	}
}

// TestWriteAll checks that several mutations are applied as one entry with one timestamp. An entry with updates must be
// applied only once, even if it is sent repeatedly. If one mutation cannot be applied, no mutation must be applied.
func TestWriteAll(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	r := w.replica(w.leader(p.ID), p.ID)
	send := func(parts ...Part) error {
		done := make(result, 1)
		if err := r.WriteAll(t.Context(), parts, done); err != nil {
			return err
		}
		return <-done
	}
	once := func(n uint64, update bool) []Part {
		a, b := put("a", int64(n)), put("b", int64(n))
		a.Dedupe = sequence(n)
		if update {
			c := add("counter", 1)
			return []Part{{Mutation: a}, {Mutation: b}, {Mutation: &c.Mutation, Updates: c}}
		}
		return []Part{{Mutation: a}, {Mutation: b}}
	}
	for range 3 {
		if err := errors.Join(send(once(1, true)...), send(once(2, false)...)); err != nil {
			t.Fatal(err)
		}
	}
	a, at := w.read(p.ID, "a")
	b, bt := w.read(p.ID, "b")
	if n, _ := w.read(p.ID, "counter"); a != 2 || b != 2 || at != bt || n != 1 {
		t.Errorf("%d at %d, %d at %d, counter %d", a, at, b, bt, n)
	}
	bad := put("c", 1)
	bad.Table++
	if err := send(Part{Mutation: put("a", 9)}, Part{Mutation: bad}); err == nil {
		t.Error("a mutation of another table")
	}
	if a, _ := w.read(p.ID, "a"); a != 2 {
		t.Error("half of the batch was applied")
	}
	if last, err := r.Last(t.Context(), r.Extent(), fairshare.Principal{}); err != nil || last < at {
		t.Errorf("last stamp %d, %v", last, err)
	}
	w.same(p.ID, 0, 1, 2)
}

// TestWholeExtent checks that a command for a whole partition is rejected without effect unless the replica has the
// extent that the sender expects. The leader checks this before it proposes the command, and the log checks it again.
func TestWholeExtent(t *testing.T) {
	for name, o := range map[string]Options{"synced": {Durability: Synced}, "periodic": {}} {
		h := open(t, newStore(t), 1, o)
		r := h.Replicas()[0]
		if err := write(t.Context(), r, put("k", 7)); err != nil {
			t.Fatal(err)
		}
		now := r.Extent()
		later, narrower := now, now
		later.Epoch++
		narrower.Span.End = []byte{1}
		for _, x := range []Extent{later, narrower, {}} {
			var moved *WrongRange
			if err := r.Truncate(t.Context(), x, Truncation{}, make(result, 1)); !errors.As(err, &moved) ||
				moved.Epoch != now.Epoch {
				t.Errorf("%s: truncate %+v: %v", name, x, err)
			}
			if err := r.Require(t.Context(), x, 1<<40); !errors.As(err, &moved) {
				t.Errorf("%s: require %+v: %v", name, x, err)
			}
			if _, err := r.Last(t.Context(), x, fairshare.Principal{}); !errors.As(err, &moved) {
				t.Errorf("%s: last %+v: %v", name, x, err)
			}
		}
		// The log rejects commands that were accepted for the extent before a change.
		for _, kind := range []command.EntryKind{command.EntryTruncate, command.EntryRequire} {
			e := &command.Entry{Kind: kind, Epoch: later.Epoch, Span: now.Span, SchemaVersion: 1 << 40}
			var moved *WrongRange
			if _, err := r.Control().proposeAndWait(t.Context(), e); !errors.As(err, &moved) {
				t.Errorf("%s: entry %d: %v", name, kind, err)
			}
		}
		m := put("l", 8)
		m.SchemaVersion = 3
		if err := write(t.Context(), r, m); err != nil {
			t.Errorf("%s: after rejected requirements: %v", name, err)
		}
		if _, err := r.Last(t.Context(), now, fairshare.Principal{}); err != nil {
			t.Error(err)
		}
		if v, _ := read(t, r, "k"); v != 7 {
			t.Errorf("%s: read %d after rejected truncations", name, v)
		}
		closeHost(t, h)
	}
}

// TestTruncateRequireSweep checks the order of truncations, schema requirements, and sweeps in the log. Rows written
// before a truncation must be removed on all replicas, and later rows must remain. Writes planned for an older schema
// must be rejected.
func TestTruncateRequireSweep(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	var stop atomic.Bool
	var writers sync.WaitGroup
	for c := range 3 {
		writers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := w.write(p.ID, fmt.Sprint("x", c, i%10), 1); err != nil {
					t.Error(err)
				}
				if err := w.add(p.ID, "counter"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := w.write(p.ID, "before", 1); err != nil {
		t.Fatal(err)
	}
	r := w.replica(w.leader(p.ID), p.ID)
	done := make(result, 1)
	if err := r.Truncate(t.Context(), r.Extent(), Truncation{}, done); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := w.write(p.ID, "after", 2); err != nil {
		t.Fatal(err)
	}
	if err := r.Require(t.Context(), r.Extent(), 5); err != nil {
		t.Fatal(err)
	}
	old := put("old", 1)
	old.SchemaVersion = 4
	if err := write(t.Context(), r, old); !errors.Is(err, ErrStaleSchema) {
		t.Errorf("%v", err)
	}
	sweep := &command.Sweep{
		Table:   testTable,
		Horizon: time.Now().Unix(),
		Keys:    [][]byte{keys.AppendDeletions(nil, testTable, old.Token, old.Key)},
	}
	if err := w.nodes[w.leader(p.ID)].host.Load().Sweep(t.Context(), sweep, false); err != nil {
		t.Error(err)
	}
	stop.Store(true)
	writers.Wait()
	before, _ := w.read(p.ID, "before")
	after, _ := w.read(p.ID, "after")
	if before != 0 || after != 2 {
		t.Errorf("before %d, after %d", before, after)
	}
	w.same(p.ID, 0, 1, 2)
	follower := w.replica((w.leader(p.ID)+1)%3, p.ID)
	w.until("the schema at a follower", func() bool { return follower.schema.Load() == 5 })
	var moved *NotLeader
	if err := follower.Truncate(t.Context(), r.Extent(), Truncation{}, done); !errors.As(err, &moved) {
		t.Errorf("a truncation at a follower: %v", err)
	}
}

// TestConditionSeesWritesUnderWay checks that a conditional write sees all blind writes of its key that were sent
// immediately before it. Other keys of the stripe are written concurrently.
func TestConditionSeesWritesUnderWay(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	r := w.replica(w.leader(p.ID), p.ID)
	done := make(result, 100)
	for i := range int64(10) {
		for n := range int64(10) {
			if err := r.Write(t.Context(), put("k", 10*i+n), done); err != nil {
				t.Fatal(err)
			}
		}
		d, err := decide(t.Context(), r, swap("k", wire(10*i+9), -i))
		if err != nil || !d.Applied {
			t.Fatalf("%+v %v", d, err)
		}
		if d, err = decide(t.Context(), r, swap("k", wire(1000), 1000)); err != nil || d.Applied {
			t.Fatalf("%+v %v", d, err)
		}
	}
	for range 100 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for i := range r.host.latches.stripes {
		s := &r.host.latches.stripes[i]
		s.mu.Lock()
		if len(s.pending)+len(s.entries) != 0 {
			t.Errorf("stripe %d holds %d flights and %d latches", i, len(s.pending), len(s.entries))
		}
		s.mu.Unlock()
	}
}
