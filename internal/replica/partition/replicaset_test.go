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
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// TestAcknowledgedSurvives checks that acknowledged writes survive a crash of their leader, or of all nodes, with the
// loss of all unsynced data. All replicas must have the same contents.
func TestAcknowledgedSurvives(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	if lead := w.leader(p.ID); lead != 0 {
		t.Logf("node %d leads, though another one is listed first", lead)
	}
	for i := range 50 {
		if err := w.write(p.ID, fmt.Sprint(i), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	lead := w.leader(p.ID)
	w.crash(lead)
	check := func() {
		t.Helper()
		for i := range 50 {
			if v, _ := w.read(p.ID, fmt.Sprint(i)); v != int64(i) {
				t.Errorf("key %d has %d", i, v)
			}
		}
	}
	check()
	w.start(lead)
	for i := range w.nodes {
		w.crash(i)
	}
	for i := range w.nodes {
		w.start(i)
	}
	check()
	w.same(p.ID, 0, 1, 2)
}

// trouble moves, disconnects, and crashes leaders until stop is closed.
func (w *testCluster) trouble(id topology.PartitionID, stop chan struct{}) {
	for round := 0; ; round++ {
		lead := w.leader(id)
		switch r := w.replica(lead, id); round % 4 {
		case 0, 1:
			if s, err := r.Membership().Status(); err == nil && len(s.Peers) > 0 {
				_ = r.Membership().Transfer(topology.ReplicaID(s.Peers[round%len(s.Peers)].Replica))
			}
		case 2:
			w.isolate(lead, true)
		case 3:
			w.crash(lead)
			w.start(lead)
		}
		select {
		case <-stop:
			w.isolate(lead, false)
			return
		case <-time.After(300 * time.Millisecond):
		}
		w.isolate(lead, false)
	}
}

// TestLeaderChanges checks that acknowledged writes are never lost, and that overwritten values never reappear, while
// leaders change. The last value of a key must be the last acknowledged value. Timestamps must increase. Counters must
// count each addition once.
func TestLeaderChanges(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	w.leader(p.ID)
	stop := make(chan struct{})
	var troubles, clients sync.WaitGroup
	troubles.Go(func() { w.trouble(p.ID, stop) })
	end := time.Now().Add(2 * time.Second)
	for c := range 4 {
		clients.Go(func() {
			key, last := fmt.Sprint("w", c), int64(0)
			for v := int64(1); time.Now().Before(end); v++ {
				if err := w.write(p.ID, key, v); errors.Is(err, ErrUncertain) {
					continue
				} else if err != nil {
					t.Error(err)
					return
				}
				got, ts := w.read(p.ID, key)
				if got != v || ts <= last {
					t.Errorf("%s: %d at %d was acknowledged, found %d at %d", key, v, last, got, ts)
				}
				last = ts
			}
		})
	}
	var mu sync.Mutex
	sure, unsure := int64(0), int64(0)
	for range 4 {
		clients.Go(func() {
			for time.Now().Before(end) {
				err := w.add(p.ID, "counter")
				mu.Lock()
				if errors.Is(err, ErrUncertain) {
					unsure++
				} else if err != nil {
					t.Error(err)
				} else {
					sure++
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	close(stop)
	troubles.Wait()
	if n, _ := w.read(p.ID, "counter"); n < sure || n > sure+unsure {
		t.Errorf("the counter is %d after %d additions and %d with an unknown outcome", n, sure, unsure)
	}
	if sure == 0 {
		t.Error("no addition succeeded")
	}
	t.Logf("%d additions, %d of which nobody knows", sure, unsure)
	w.same(p.ID, 0, 1, 2)
}

// TestStaleTerm checks that no log contains a write that was evaluated in an earlier term.
func TestStaleTerm(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	r := w.replica(w.leader(p.ID), p.ID)
	term, err := r.evaluating()
	if err != nil {
		t.Fatal(err)
	}
	next := (w.leader(p.ID) + 1) % 3
	move := func(r *Replica, to int) {
		w.until("another leader", func() bool {
			_ = r.Membership().Transfer(w.replica(to, p.ID).Member())
			return w.replica(to, p.ID).Leading()
		})
	}
	lead := w.leader(p.ID)
	move(r, next)
	move(w.replica(next, p.ID), lead)
	done := make(outcomeWaiter, 1)
	if err := w.replica(lead, p.ID).seq.propose(term, []byte("anything"), done); err != nil {
		t.Fatal(err)
	}
	if o := <-done; !errors.Is(o.Err, raftgroup.ErrStaleTerm) {
		t.Fatalf("%+v", o)
	}
	w.same(p.ID, 0, 1, 2)
}

// TestRetries checks that a repeated command that has been applied gets a response, even from another leader and even
// after some time. If the command may be older than the dedupe window, its outcome must be unknown. If the command is
// certainly newer, it must be applied. A first attempt that arrives late must also not be applied.
func TestRetries(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	lead := w.leader(p.ID)
	r := w.replica(lead, p.ID)
	m := func(v int64, retried bool, known uint64) error {
		c := put("k", v)
		c.Dedupe.Sequence, c.Retried, c.Known = uint64(v), retried, known
		return write(t.Context(), w.replica(w.leader(p.ID), p.ID), c)
	}
	if err := m(1, false, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.write(p.ID, "k", 2); err != nil {
		t.Fatal(err)
	}
	again := func() {
		t.Helper()
		for _, retried := range []bool{false, true} {
			if err := m(1, retried, 0); err != nil {
				t.Errorf("retried %v: %v", retried, err)
			}
		}
		if v, _ := w.read(p.ID, "k"); v != 2 {
			t.Errorf("a write was applied twice: %d", v)
		}
	}
	again()
	next := (lead + 1) % 3
	w.until("another leader", func() bool {
		_ = r.Membership().Transfer(w.replica(next, p.ID).Member())
		return w.replica(next, p.ID).Leading()
	})
	again()
	for i := range w.nodes {
		w.stop(i)
	}
	for i := range w.nodes {
		w.start(i)
	}
	for _, known := range []uint64{0, r.host.DedupeEpoch()} {
		if err := m(1, true, known); !errors.Is(err, ErrUncertain) {
			t.Errorf("an id from before a restart: %v", err)
		}
	}
	if err := m(3, true, w.replica(w.leader(p.ID), p.ID).host.DedupeEpoch()); err != nil {
		t.Errorf("an id from after the restart: %v", err)
	}
	if err := w.write(p.ID, "k", 4); err != nil {
		t.Errorf("a first attempt: %v", err)
	}
}

// TestFollowerReads checks that a follower serves reads at ONE while it receives messages from its leader. It must not
// return an older state than this node has seen. Other reads must go to the leader. Reads from another node must also
// go to the leader, because the other node may have seen a newer state than the follower.
func TestFollowerReads(t *testing.T) {
	w := newTestCluster(t, 3)
	p := w.newTable(0, 1, 2)
	if err := w.write(p.ID, "k", 7); err != nil {
		t.Fatal(err)
	}
	lead := w.leader(p.ID)
	i := (lead + 1) % 3
	f := w.replica(i, p.ID)
	w.until("a fresh follower", func() bool {
		v, _, err := get(t.Context(), f, "k", dberr.LocalOne)
		return err == nil && v == 7
	})
	var moved *NotLeader
	if _, _, err := get(t.Context(), f, "k", dberr.Quorum); !errors.As(err, &moved) || moved.Leader != nodeID(lead) {
		t.Errorf("QUORUM at a follower: %v", err)
	}
	k := []byte("k")
	elsewhere := &command.Read{Table: testTable, Token: token.Hash(k), Key: k, Level: dberr.One}
	if err := f.Read(t.Context(), elsewhere, &rowCollector{}); !errors.As(err, &moved) || moved.Leader != nodeID(lead) {
		t.Errorf("ONE at a follower on another node: %v", err)
	}
	seen := f.Applied()
	f.NoteAcknowledged(seen + 1000)
	if _, _, err := get(t.Context(), f, "k", dberr.One); !errors.As(err, &moved) {
		t.Errorf("a follower that has not applied what was seen: %v", err)
	}
	f.local.acknowledged.Store(seen)
	w.isolate(i, true)
	w.until("silence", func() bool {
		_, _, err := get(t.Context(), f, "k", dberr.One)
		return errors.As(err, &moved)
	})
	w.isolate(i, false)
}

// TestMove checks that a joining replica receives a snapshot, and becomes a voter in the same change in which another
// replica leaves. The leaving replica must be dropped. The new replica and the other replicas must survive a restart.
func TestMove(t *testing.T) {
	w := newTestCluster(t, 4)
	p := w.newTable(0, 1, 2)
	for i := range 300 { // these writes cause a truncation of the log
		if err := w.write(p.ID, fmt.Sprint(i), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	const joining = topology.ReplicaID(77)
	host := func(i int) *Host { return w.nodes[i].host.Load() }
	if err := errors.Join(host(3).Join(p.ID, joining), host(3).Join(p.ID, joining)); err != nil {
		t.Fatal(err)
	}
	if err := host(3).Join(p.ID, 78); err == nil {
		t.Error("the node joined with two replicas")
	}
	if err := write(t.Context(), host(3).Replica(p.ID), put("k", 1)); err == nil {
		t.Error("a replica that waits for its snapshot took a write")
	}
	w.stop(3) // the replica also waits after a restart
	w.start(3)
	member := raftgroup.Member{Replica: uint64(joining), Node: raftgroup.NodeID(nodeID(3))}
	change := func(changes ...raftgroup.Change) {
		t.Helper()
		w.until("a change of members", func() bool {
			err := w.replica(w.leader(p.ID), p.ID).Membership().ChangeMembers(t.Context(), changes)
			return err == nil
		})
	}
	change(raftgroup.Change{Member: member, As: raftgroup.Learner})
	w.until("a snapshot", func() bool { return host(3).Replica(p.ID).Applied() > 300 })
	lead := w.leader(p.ID)
	old := (lead + 1) % 3
	gone := raftgroup.Member{Replica: uint64(w.replica(old, p.ID).Member()), Node: raftgroup.NodeID(nodeID(old))}
	change(raftgroup.Change{Member: member, As: raftgroup.Voter}, raftgroup.Change{Member: gone, As: raftgroup.Gone})
	if err := host(old).Drop(p.ID); err != nil {
		t.Fatal(err)
	}
	if host(old).Len() != 0 {
		t.Error("the removed replica still exists")
	}
	left := []int{lead, (lead + 2) % 3, 3}
	w.same(p.ID, left...)
	for i := range w.nodes {
		w.crash(i)
		w.start(i)
	}
	if v, _ := w.read(p.ID, "123"); v != 123 {
		t.Errorf("%d", v)
	}
	if host(old).Len() != 0 {
		t.Error("the removed replica exists again")
	}
	w.same(p.ID, left...)
	// A new replica can be created at the old location, because IDs are not reused.
	if err := host(old).Join(p.ID, 79); err != nil {
		t.Fatal(err)
	}
}

// TestTransferAll checks that a node leads no partitions after TransferAll, and that no request fails.
func TestTransferAll(t *testing.T) {
	w := newTestCluster(t, 3)
	ps := w.table(8, 0, 1, 2).Partitions(testTable)
	w.create(ps...)
	for _, p := range ps {
		w.leader(p.ID)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	h := w.nodes[0].host.Load()
	if err := h.ReplicaSets().TransferAll(ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range h.Replicas() {
		if r.Leading() {
			t.Errorf("partition %d is still led", r.ID())
		}
	}
	if len(h.Spans()) != 0 {
		t.Error("a node that leads nothing sweeps")
	}
}

// learner changes a node's replica into a learner.
func learner(node int, id topology.ReplicaID) []raftgroup.Change {
	return []raftgroup.Change{{Member: raftgroup.Member{Replica: uint64(id), Node: raftgroup.NodeID(nodeID(node))},
		As: raftgroup.Learner}}
}
