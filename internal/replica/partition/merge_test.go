// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/eventually"
)

// pair creates a table with two partitions on the given nodes.
func (w *testCluster) pair(on ...int) (left, right topology.PartitionID) {
	w.t.Helper()
	ps := w.table(2, on...).Partitions(testTable)
	for i := range ps[1].Sets[0].Replicas { // replica IDs are unique within a table
		ps[1].Sets[0].Replicas[i].ID += 50
	}
	w.create(ps...)
	w.leader(ps[0].ID)
	w.leader(ps[1].ID)
	return ps[0].ID, ps[1].ID
}

// either sends a command for a key to both partitions alternately until the partition that contains the key accepts it.
func (w *testCluster) either(left, right topology.PartitionID, key string, send sender) error {
	to := left
	if token.Hash([]byte(key)).Position() >= 1<<63 {
		to = right
	}
	for a := w.newAttempts(); ; {
		err := w.retry(a, to, send)
		var wrong *WrongRange
		if !errors.As(err, &wrong) || time.Since(a.began) > eventually.Limit {
			return err
		}
		time.Sleep(2 * time.Millisecond)
		if to == right {
			to = left
		} else if token.Hash([]byte(key)).Position() >= 1<<63 {
			to = right
		}
	}
}

// done repeats a request to a partition's leader until the request is effective.
func (w *testCluster) done(what string, id topology.PartitionID, order func(*Replica) error, has func(*Replica) bool) {
	w.t.Helper()
	w.until(what, func() bool {
		r := w.replica(w.leader(id), id)
		if r == nil || has(r) {
			return r != nil
		}
		var moved *NotLeader
		var wrong *WrongRange
		if err := order(r); err != nil && !errors.As(err, &moved) && !errors.As(err, &wrong) &&
			!errors.Is(err, ErrUncertain) && !errors.Is(err, ErrClosed) {
			w.t.Fatal(err)
		}
		return has(r)
	})
}

// freeze freezes a partition on all nodes and returns the index of the freeze.
func (w *testCluster) freeze(id topology.PartitionID, epoch uint64) (index uint64) {
	w.t.Helper()
	frozen := func(r *Replica) bool { // a replica that lags may still be frozen at an earlier epoch
		s := r.state.Load()
		index = s.frozen
		return s.frozen != 0 && s.epoch == epoch
	}
	w.done("the freeze", id, func(r *Replica) error { return r.Control().Freeze(context.Background(), epoch) }, frozen)
	w.until("all replicas to be frozen", func() bool {
		for i := range w.nodes {
			if r := w.replica(i, id); r == nil || !frozen(r) {
				return false
			}
		}
		return true
	})
	return index
}

// TestMerge checks a merge of two partitions after a merge that was rolled back. Concurrently, clients send blind
// writes and counter updates, and leaders change, are disconnected, and crash. Every acknowledged write must be visible
// exactly once, no read may miss such a write, and replicas must agree.
func TestMerge(t *testing.T) {
	w := newTestCluster(t, 3)
	left, right := w.pair(0, 1, 2)
	stop := make(chan struct{})
	var troubles, clients sync.WaitGroup
	troubles.Go(func() { w.trouble(left, stop) })
	end := time.Now().Add(6 * time.Second)
	tally := w.clients(&clients, end, func(key string, f sender) error { return w.either(left, right, key, f) })
	time.Sleep(500 * time.Millisecond)
	w.freeze(right, keys.InitialEpoch)
	w.done("the thaw", right,
		func(r *Replica) error { return r.Control().Unfreeze(context.Background(), keys.InitialEpoch) },
		func(r *Replica) bool { _, epoch := r.Span(); return epoch > keys.InitialEpoch })
	time.Sleep(500 * time.Millisecond)
	index := w.freeze(right, keys.InitialEpoch+1)
	w.done("the merge", left, func(r *Replica) error {
		return r.Control().Merge(context.Background(), keys.InitialEpoch, &command.Merge{Right: uint64(right),
			Frozen:     index,
			RightEpoch: keys.InitialEpoch + 1})
	}, func(r *Replica) bool { _, epoch := r.Span(); return epoch == keys.InitialEpoch+2 })
	clients.Wait()
	close(stop)
	troubles.Wait()
	w.same(left, 0, 1, 2)
	for i := range w.nodes {
		w.until("the right partition to be gone", func() bool { return w.replica(i, right) == nil })
	}
	for n := range tally.sure {
		key := fmt.Sprint("counter ", n)
		if v, _ := w.read(left, key); v < tally.sure[n] || v > tally.sure[n]+tally.unsure[n] {
			t.Errorf("%s is %d after %d known and %d uncertain additions", key, v, tally.sure[n], tally.unsure[n])
		}
	}
}

// TestUnfreeze checks that a frozen partition rejects writes and reads at all levels as not executed, and that an
// unfreeze ends this state at the next epoch. A freeze that arrives after its unfreeze must be rejected. A frozen
// partition must remain frozen after a crash.
func TestUnfreeze(t *testing.T) {
	w := newTestCluster(t, 3)
	_, right := w.pair(0, 1, 2)
	ctx, key := context.Background(), "counter 1"
	for token.Hash([]byte(key)).Position() < 1<<63 {
		key += "1"
	}
	if err := w.write(right, key, 1); err != nil {
		t.Fatal(err)
	}
	w.freeze(right, keys.InitialEpoch)
	for i := range w.nodes {
		w.crash(i)
	}
	for i := range w.nodes {
		w.start(i)
	}
	w.leader(right)
	for i := range w.nodes {
		r := w.replica(i, right)
		var wrong *WrongRange
		var moved *NotLeader
		if r.Frozen() == 0 {
			t.Errorf("node %d: a crash has unfrozen the partition", i)
		}
		for _, level := range []dberr.Consistency{dberr.One, dberr.Quorum} {
			if _, _, err := get(ctx, r, key, level); !errors.As(err, &wrong) && !errors.As(err, &moved) {
				t.Errorf("node %d: a read at %v of a frozen partition: %v", i, level, err)
			}
		}
		if err := write(ctx, r, put(key, 2)); !errors.As(err, &wrong) && !errors.As(err, &moved) {
			t.Errorf("node %d: a write to a frozen partition: %v", i, err)
		}
	}
	thaw := func(epoch uint64) {
		w.done("the thaw", right, func(r *Replica) error { return r.Control().Unfreeze(ctx, epoch) },
			func(r *Replica) bool { _, now := r.Span(); return now > epoch })
	}
	thaw(keys.InitialEpoch)
	if v, _ := w.read(right, key); v != 1 {
		t.Errorf("partition %d exists after the unfreeze", v)
	}
	thaw(keys.InitialEpoch + 1)
	for range 10 {
		r := w.replica(w.leader(right), right)
		freeze := &command.Entry{Kind: command.EntryFreeze, Epoch: keys.InitialEpoch + 1}
		_, err := r.Control().proposeAndWait(ctx, freeze)
		if err == nil || r.Frozen() != 0 {
			t.Fatalf("a freeze after the unfreeze: %v, frozen at %d", err, r.Frozen())
		}
	}
	if err := w.write(right, key, 3); err != nil {
		t.Error(err)
	}
}

// TestMergeBySnapshot checks a node that was down while two partitions were merged, and that receives a snapshot of the
// result. It must have all rows of both partitions and no replica of the right partition, even after a crash.
func TestMergeBySnapshot(t *testing.T) {
	w := newTestCluster(t, 3)
	left, right := w.pair(0, 1, 2)
	for n := range 50 {
		if err := w.either(left, right, fmt.Sprint("before ", n), func(r *Replica, _ func(*command.Mutation)) error {
			return write(context.Background(), r, put(fmt.Sprint("before ", n), int64(n)))
		}); err != nil {
			t.Fatal(err)
		}
	}
	index := w.freeze(right, keys.InitialEpoch)
	w.isolate(2, true)
	w.done("the merge", left, func(r *Replica) error {
		return r.Control().Merge(context.Background(), keys.InitialEpoch, &command.Merge{Right: uint64(right),
			Frozen:     index,
			RightEpoch: keys.InitialEpoch})
	}, func(r *Replica) bool { _, epoch := r.Span(); return epoch == keys.InitialEpoch+1 })
	for n := range 1000 { // the log is truncated after the merge
		if err := w.write(left, fmt.Sprint("after ", n%50), int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	if id, epoch := w.nodes[2].host.Load().Absorber(right); id != left || epoch != keys.InitialEpoch {
		t.Errorf("node 2 waits for the merge by partition %d at epoch %d", id, epoch)
	}
	w.isolate(2, false)
	w.until("the snapshot", func() bool { return w.replica(2, right) == nil })
	if w.replica(2, left).seq.(*raftSequencer).installs.Load() == 0 {
		t.Error("the log contained the merge, and no snapshot was installed")
	}
	w.same(left, 0, 1, 2)
	w.crash(2)
	w.start(2)
	w.same(left, 0, 1, 2)
	if w.replica(2, right) != nil {
		t.Error("the right partition exists again after a crash")
	}
	for n := range 50 {
		if v, _ := w.read(left, fmt.Sprint("before ", n)); v != int64(n) {
			t.Errorf("before %d is %d", n, v)
		}
	}
}
