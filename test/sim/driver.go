// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"io"

	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// driver implements partition.Runner for one process run of a node. It puts work into the inbox, and the event loop
// executes the work in steps.
type driver struct {
	n    *node
	life int
}

// runner implements the Runner function of partition.SimHooks.
func (n *node) runner(h *raftgroup.Host, m raftgroup.StateMachine, s raftgroup.SnapshotStore) partition.Runner {
	n.Host = h
	n.Snaps = n.plantSnapshots(s)
	n.Writer = raftgroup.NewLogWriter(n.plantLog(n.raftLog.NewBatch()))
	n.Apply = raftgroup.NewApplier(n.plantMachine(m))
	return driver{n, n.Life}
}

func (d driver) gone() bool { return d.n.Life != d.life || d.n.Host == nil }

// Start implements partition.Runner.
func (d driver) Start() {}

func (d driver) Close() error { return nil }

func (d driver) Failed() error { return nil }

func (d driver) Receive(raftgroup.NodeID, []byte) error { return raftgroup.ErrClosed }

func (d driver) ReceiveSnapshot(raftgroup.NodeID, io.Reader) error { return raftgroup.ErrClosed }

func (d driver) Propose(g *raftgroup.Group, term uint64, data []byte, waiter raftgroup.Waiter) error {
	n := d.n
	if d.gone() {
		return raftgroup.ErrClosed
	}
	own := append([]byte(nil), data...) // the caller reuses the memory when the proposal has ended
	if n.plantTerm(g, own, waiter) {
		return nil
	}
	p, err := g.NewProposal(term, own, waiter)
	if err != nil {
		return err
	}
	n.Inbox.Proposals = append(n.Inbox.Proposals, p)
	n.Kick()
	return nil
}

func (d driver) ReadIndex(g *raftgroup.Group, waiter raftgroup.Waiter) error {
	if d.gone() {
		return raftgroup.ErrClosed
	}
	r, err := g.NewRead(waiter)
	if err != nil {
		return err
	}
	d.n.w.counts.IndexReads++
	d.n.Inbox.Reads = append(d.n.Inbox.Reads, r)
	d.n.Kick()
	return nil
}

func (d driver) Call(f func(*raftgroup.Host)) bool {
	if d.gone() {
		return false
	}
	d.n.Inbox.Calls = append(d.n.Inbox.Calls, f)
	d.n.Kick()
	return true
}

func (d driver) Do(f func(*raftgroup.Host)) error {
	done := false
	if !d.Call(func(h *raftgroup.Host) { f(h); done = true }) {
		return raftgroup.ErrClosed
	}
	if err := d.n.Process().Wait(context.Background(), func() bool { return done }, 0); err != nil {
		return raftgroup.ErrClosed
	}
	return nil
}

var _ partition.Runner = driver{}
