// SPDX-License-Identifier: Apache-2.0

package raftgroup_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// lockstep is a cluster whose nodes execute their steps in turn. Replica 10+i of group 1 is on node i.
type lockstep struct {
	t     *testing.T
	nodes []*bench
	// down holds the nodes that execute no steps.
	down map[int]bool
	// mute drops offers of leadership.
	mute bool
}

func newLockstep(t *testing.T, nodes int) *lockstep {
	t.Helper()
	c := &lockstep{t: t, down: map[int]bool{}}
	for i := range nodes {
		b, _ := openAs(t, vfs.NewMem(), i, nodes, raftgroup.Options{AlwaysTick: true})
		c.nodes = append(c.nodes, b)
	}
	return c
}

// run executes steps until no node has any work left.
func (c *lockstep) run() {
	c.t.Helper()
	for range 1000 {
		busy := false
		for i, b := range c.nodes {
			if c.down[i] {
				continue
			}
			b.carry = func(f raftgroup.Frame) {
				for to := range c.nodes {
					if nodeID(to) == f.To && !c.down[to] {
						got, err := raftgroup.DecodeFrame(nodeID(i), append([]byte(nil), f.Data...))
						if err != nil {
							c.t.Fatal(err)
						}
						got.Messages = slices.DeleteFunc(got.Messages, func(m raftgroup.Message) bool {
							return c.mute && m.Raft.GetType() == pb.MsgTimeoutNow
						})
						c.nodes[to].inbox.Frames = append(c.nodes[to].inbox.Frames, got)
					}
				}
			}
			if len(b.inbox.Frames)+len(b.inbox.Proposals)+b.inbox.Ticks > 0 {
				busy = true
				b.run()
			}
		}
		if !busy {
			return
		}
	}
	c.t.Fatal("the steps do not end")
}

// tick advances the time. If each is not nil, tick calls it after each tick.
func (c *lockstep) tick(n int, each func()) {
	c.t.Helper()
	for range n {
		for _, b := range c.nodes {
			b.now += raftgroup.Instant(50 * time.Millisecond)
			b.inbox.Ticks = 1
		}
		c.run()
		if each != nil {
			each()
			c.run()
		}
	}
}

// leader returns the running node that leads and has applied all older entries, or -1.
func (c *lockstep) leader() int {
	for i, b := range c.nodes {
		if _, ok := b.host.Group(1).Evaluating(); ok && !c.down[i] {
			return i
		}
	}
	return -1
}

// lead makes a node the leader before a test begins.
func (c *lockstep) lead(node int) {
	c.t.Helper()
	for range 20 {
		c.tick(40, nil)
		if c.leader() == node {
			return
		}
		if n := c.leader(); n >= 0 {
			_ = c.nodes[n].host.Transfer(1, uint64(10+node))
		}
	}
	c.t.Fatalf("node %d does not lead", node)
}

// writes tries a write after each of n ticks. writes returns the number of ticks in which no write succeeded, in total
// and in the longest period.
func (c *lockstep) writes(n int, each func()) (failed, stretch int) {
	c.t.Helper()
	run := 0
	c.tick(n, func() {
		if each != nil {
			each()
			c.run()
		}
		o := &outcome{}
		if l := c.leader(); l >= 0 {
			if p, err := c.nodes[l].host.Group(1).NewProposal(0, ledger.Add("n", 1), o); err == nil {
				c.nodes[l].inbox.Proposals = append(c.nodes[l].inbox.Proposals, p)
				c.run()
			}
		}
		if run++; o.calls == 1 && o.Err == nil {
			run = 0
		} else {
			failed++
		}
		stretch = max(stretch, run)
	})
	return failed, stretch
}

func (c *lockstep) abstain(known bool, nodes ...int) {
	set := map[raftgroup.NodeID]bool{}
	for _, n := range nodes {
		c.nodes[n].host.Abstain(true)
		set[nodeID(n)] = true
	}
	for _, b := range c.nodes {
		if known {
			b.host.Abstaining(set)
		}
	}
}
