// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (c *cluster) add(g int, m *member, n uint64) (uint64, error) {
	w := make(done, 1)
	if err := m.runner.Propose(m.groups[g], 0, ledger.Add("n", n), w); err != nil {
		return 0, err
	}
	o := <-w
	sum, _ := o.Result.(uint64)
	return sum, o.Err
}

// TestRunner checks with real goroutines and connections the properties that the simulator checks for the steps.
// Concurrent writes to several groups must be applied once on every node, and reads must see them. Leadership transfers
// must succeed, and Close must end all goroutines.
func TestRunner(t *testing.T) {
	c := newCluster(t, vfs.NewMem(), "data", 3, raftgroup.Options{TruncateEntries: 50, TruncateKeep: 10})
	c.elect()
	const writers, writes = 8, 25
	var wg sync.WaitGroup
	for g := range 3 {
		for range writers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range writes {
					if _, err := c.add(g, c.leader(g), 1); err != nil {
						t.Error(err)
						return
					}
				}
			}()
		}
	}
	wg.Wait()
	for g := range 3 {
		m := c.leader(g)
		var got uint64
		err := m.runner.Read(context.Background(), m.groups[g], func() error {
			value, err := m.store.Get(uint64(g+1), "n")
			got = ledger.Number(value)
			return err
		})
		if err != nil || got != writers*writes {
			t.Fatalf("group %d: %d, %v", g+1, got, err)
		}
	}
	old, next := c.nodes[0], c.nodes[1]
	if err := old.runner.Do(func(h *raftgroup.Host) { _ = h.Transfer(1, next.groups[0].Replica()) }); err != nil {
		t.Fatal(err)
	}
	eventually.True(c.tb, "node 1 leads group 1", func() bool { _, ok := next.groups[0].Evaluating(); return ok })
	if _, err := c.add(0, old, 1); !errors.Is(err, raftgroup.ErrNotLeader) {
		t.Errorf("the old leader: %v", err)
	}
	if sum, err := c.add(0, next, 1); err != nil || sum != writers*writes+1 {
		t.Errorf("the new leader: %d, %v", sum, err)
	}
	for _, m := range c.nodes {
		eventually.True(c.tb, "all have all", func() bool { return m.groups[0].Applied() == next.groups[0].Applied() })
	}
	c.close()
	if err := next.runner.Propose(next.groups[0], 0, ledger.Add("n", 1), make(done, 1)); err == nil {
		t.Error("a proposal after Close")
	}
	if next.groups[0].Lease() != 0 {
		t.Error("a lease after Close")
	}
}

// TestQuietGroupsWake checks that idle groups become quiescent, wake for a write, and wake on their own when their
// leader's node becomes silent.
func TestQuietGroupsWake(t *testing.T) {
	c := newCluster(t, vfs.NewMem(), "data", 8, raftgroup.Options{Tick: 5 * time.Millisecond, WakesPerTick: 1})
	c.elect()
	quiet := func(m *member, n int64) func() bool { return func() bool { return m.quiet.Load() == n } }
	for _, m := range c.nodes {
		eventually.True(c.tb, "all groups are quiet", quiet(m, 8))
	}
	if sum, err := c.add(0, c.leader(0), 7); err != nil || sum != 7 {
		t.Fatalf("%d, %v", sum, err)
	}
	for _, m := range c.nodes {
		eventually.True(c.tb, "all groups are quiet again", quiet(m, 8))
	}
	c.nodes[0].wire.cut.Store(true)
	eventually.True(c.tb, "others lead the groups of the silent node", func() bool {
		led := 0
		for _, g := range []int{0, 4} {
			for _, m := range c.nodes[1:] {
				if _, ok := m.groups[g].Evaluating(); ok {
					led++
				}
			}
		}
		return led == 2
	})
	c.close()
}

// TestEventsOfQuietGroups checks the events of groups without traffic. The groups must report when their leader's node
// becomes silent, which replica is the new leader and on which node, and when the silent node is back.
func TestEventsOfQuietGroups(t *testing.T) {
	var mu sync.Mutex
	var down, up bool
	leaders := map[uint64]raftgroup.Member{}
	events := &observer{}
	o := raftgroup.Options{Tick: 10 * time.Millisecond, Observer: events}
	events.peerDown = func(node raftgroup.NodeID, is bool) {
		mu.Lock()
		defer mu.Unlock()
		if node == nodeID(0) {
			down, up = down || is, up || down && !is
		}
	}
	events.leaderChanged = func(group uint64, leader raftgroup.Member) {
		mu.Lock()
		defer mu.Unlock()
		if leader.Replica != 0 {
			leaders[group] = leader
		}
	}
	seen := func(f func() bool) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return f() }
	}
	c := newCluster(t, vfs.NewMem(), "data", 4, o)
	c.elect()
	for _, m := range c.nodes {
		eventually.True(c.tb, "all groups are quiet", func() bool { return m.quiet.Load() == 4 })
	}
	eventually.True(c.tb, "all leaders are known", seen(func() bool {
		return leaders[1].Node == nodeID(0) && leaders[4].Node == nodeID(3)
	}))
	c.nodes[0].wire.cut.Store(true)
	eventually.True(c.tb, "the silent node is down, and its group has another leader", seen(func() bool {
		return down && leaders[1].Node != nodeID(0) && leaders[1].Node != raftgroup.NodeID{}
	}))
	c.nodes[0].wire.cut.Store(false)
	eventually.True(c.tb, "the node is back", seen(func() bool { return up }))
	c.close()
}

// TestTransferAll checks that a node transfers all its groups to replicas that are ready, and that it rejects other
// replicas by name.
func TestTransferAll(t *testing.T) {
	c := newCluster(t, vfs.NewMem(), "data", 9, raftgroup.Options{})
	c.elect()
	m := c.nodes[0]
	var left int
	eventually.True(c.tb, "nothing is left", func() bool {
		if err := m.runner.Do(func(h *raftgroup.Host) { left = h.TransferAll() }); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
	for g := 0; g < 9; g += 4 {
		eventually.True(c.tb, "another leads", func() bool {
			for _, n := range c.nodes[1:] {
				if _, ok := n.groups[g].Evaluating(); ok {
					return true
				}
			}
			return false
		})
	}
	if err := m.runner.Do(func(h *raftgroup.Host) {
		if err := h.Transfer(1, 11); !errors.Is(err, raftgroup.ErrNotLeader) {
			t.Errorf("transfer of a group with a leader on another node: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	n := c.nodes[1]
	if err := n.runner.Do(func(h *raftgroup.Host) {
		if err := h.Transfer(2, 4711); !errors.Is(err, raftgroup.ErrNotReady) {
			t.Errorf("transfer to an unknown node: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	c.close()
}

// TestTransferAllIsFinal checks that a node that has started to transfer its leaderships accepts no leadership.
func TestTransferAllIsFinal(t *testing.T) {
	c := newCluster(t, vfs.NewMem(), "data", 1, raftgroup.Options{})
	c.elect()
	stops := c.nodes[0]
	var leads *member
	eventually.True(c.tb, "another node leads", func() bool {
		_ = stops.runner.Do(func(h *raftgroup.Host) { h.TransferAll() })
		for _, n := range c.nodes[1:] {
			if _, ok := n.groups[0].Evaluating(); ok {
				leads = n
			}
		}
		return leads != nil
	})
	group, replica := leads.groups[0].ID(), stops.groups[0].Replica()
	_ = leads.runner.Do(func(h *raftgroup.Host) { h.TransferAnyway(group, replica) })
	// While a leadership is offered, no proposal is made. The offer expires after an election timeout.
	eventually.True(c.tb, "the node that was to give it back leads on", func() bool {
		_, err := c.add(0, leads, 1)
		return err == nil
	})
	if _, ok := stops.groups[0].Evaluating(); ok {
		t.Error("the node that stops leads again")
	}
	c.close()
}

// TestInconsistent checks that a node whose log differs from its reported log stops with a reason, and that the other
// nodes continue.
func TestInconsistent(t *testing.T) {
	failed := make(chan error, 4)
	c := newCluster(t, vfs.NewMem(), "data", 1, raftgroup.Options{Observer: &observer{failed: func(err error) {
		failed <- err
	}}})
	c.elect()
	c.nodes[3].runner.Inconsistent()
	if err := <-failed; !strings.Contains(err.Error(), "tocommit(7) is out of range") ||
		!strings.Contains(err.Error(), "empty directory") {
		t.Fatal(err)
	}
	if err := c.nodes[3].runner.Failed(); err == nil {
		t.Error("the runner does not report its failure")
	}
	if sum, err := c.add(0, c.leader(0), 7); err != nil || sum != 7 {
		t.Fatalf("the others: %d, %v", sum, err)
	}
	for i, m := range c.nodes {
		if err := m.runner.Close(); (err != nil) != (i == 3) {
			t.Errorf("node %d closes with %v", i, err)
		}
		m.runner = c.nodes[0].runner // the node is closed
	}
	c.close()
}
