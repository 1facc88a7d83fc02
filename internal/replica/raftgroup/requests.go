// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"context"
	"fmt"
	"io"
)

// Propose passes a command to a group (see Group.NewProposal). If it returns an error, waiter is not called.
func (r *Runner) Propose(g *Group, term uint64, data []byte, waiter Waiter) error {
	p, err := g.NewProposal(term, data, waiter)
	if err != nil {
		return err
	}
	if !add(r, &r.inbox.Proposals, p, g.proposalWaits) {
		g.pending.admitted.Add(-1)
		g.host.proposed.Add(-int64(len(data)))
		return ErrClosed
	}
	return nil
}

// add adds an item to a list of the inbox. It wakes the loop unless later returns true, which means that the loop would
// not process the item yet. It returns false if the runner is closed.
func add[T any](r *Runner, list *[]T, item T, later func() bool) bool {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	*list = append(*list, item)
	wake := r.stepping || !later()
	r.mu.Unlock()
	if wake {
		r.signal()
	}
	return true
}

// ReadIndex requests a quorum's confirmation of a read (see Group.NewRead). If it returns an error, waiter is not
// called.
func (r *Runner) ReadIndex(g *Group, waiter Waiter) error {
	read, err := g.NewRead(waiter)
	if err != nil {
		return err
	}
	if !add(r, &r.inbox.Reads, read, g.readWaits) {
		g.reads.admitted.Add(-1)
		return ErrClosed
	}
	return nil
}

// Read calls read under the lease or, if no lease is valid, after a read index. It may call read several times. The
// last call sees all writes that had succeeded before Read was called. Read works only on the leader.
func (r *Runner) Read(ctx context.Context, g *Group, read func() error) error {
	if lease := g.Lease(); lease != 0 {
		if err := read(); err != nil {
			return err
		}
		if g.Leased(lease, r.clock.Now()) {
			return nil
		}
	}
	done := make(chanWaiter, 1)
	if err := r.ReadIndex(g, done); err != nil {
		return err
	}
	select {
	case o := <-done:
		if o.Err != nil {
			return o.Err
		}
		return read()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chanWaiter is a Waiter for a caller that blocks. The channel must have a buffer of one.
type chanWaiter chan Outcome

func (c chanWaiter) Done(o Outcome) { c <- o }

// Receive processes a frame from a peer. The caller must not use the frame after the call.
func (r *Runner) Receive(from NodeID, frame []byte) error {
	f, err := DecodeFrame(from, frame)
	if err != nil {
		return err
	}
	dropped := 0
	r.mu.Lock()
	if r.inboxBytes > r.host.opts.InboxBytes {
		dropped, f.Messages = len(f.Messages), nil
	}
	ok := !r.closed
	if ok {
		r.inboxBytes += int64(len(frame))
		r.inbox.Frames = append(r.inbox.Frames, f)
		r.inbox.hasQueries = r.inbox.hasQueries || f.hasQueries
	}
	r.mu.Unlock()
	if dropped > 0 {
		r.host.opts.Observer.Dropped("InboxBytes", dropped)
	}
	if ok {
		r.signal()
	}
	return nil
}

// ReceiveSnapshot receives a snapshot that a peer has sent with Transport.SendSnapshot. It returns nil when the data is
// on this node's disk. stream must return io.EOF only if every byte is correct.
func (r *Runner) ReceiveSnapshot(from NodeID, stream io.Reader) error {
	f, err := ReadHead(from, stream)
	if err != nil {
		return err
	}
	var refused error
	if err := r.Do(func(h *Host) { refused = h.Expect(&f) }); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	data, err := r.snapshots.Receive(f.Messages[0].Group, stream)
	if err != nil {
		r.Call(func(h *Host) { h.Abandon(&f) })
		return fmt.Errorf("receive snapshot of group %d: %w", f.Messages[0].Group, err)
	}
	f.Take(data)
	if !r.put(func(in *Inbox) { in.Frames = append(in.Frames, f) }) {
		_ = data.Close()
		return ErrClosed
	}
	return nil
}
