// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Write applies a mutation and completes done once. If Write returns an error, the mutation has no effect and done is
// not completed. Write neither modifies nor retains the mutation. It blocks only while a conditional write holds the
// logical partition.
func (r *Replica) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	if err := r.throughput.admitWrite(m); err != nil {
		return err
	}
	g, err := r.host.latches.enter(ctx, r, m.Token, m.Key)
	if err != nil {
		return err
	}
	return r.writeUnder(g, m, awaitViews(r, done, r.host.hintsOf(nil, m)))
}

// WriteNow executes Write if it does not need to wait. Otherwise, taken is false and WriteNow has no effect.
func (r *Replica) WriteNow(m *command.Mutation, done command.Completion) (taken bool, err error) {
	if err := r.requests.begin(); err != nil {
		return true, err
	}
	defer r.requests.end()
	if err := r.throughput.admitWrite(m); err != nil {
		return true, err
	}
	g, ok := r.host.latches.enterNow(r, m.Token, m.Key)
	if !ok {
		return false, nil
	}
	return true, r.writeUnder(g, m, awaitViews(r, done, r.host.hintsOf(nil, m)))
}

// writeUnder writes under a latch and releases the latch. After the proposal, done may have been called, and the caller
// may have reused m.
func (r *Replica) writeUnder(g heldLatch, m *command.Mutation, done command.Completion) error {
	price, bytes := ru.Write(m)
	tok, who := m.Token, m.Principal
	applied, err := r.stampAndPropose(m, g, price, done)
	switch {
	case err != nil:
		return err
	case applied: // an earlier attempt has already been charged
		done.Done(command.Outcome{Index: r.visible.Load(), Charge: int64(price)})
	default:
		r.load.recordWrite(who, usage.Write, price, bytes, tok)
	}
	return nil
}

// stampAndPropose assigns a timestamp to a blind write and proposes the write under the latch of the key. The log is
// therefore in the order of the timestamps of each key. stampAndPropose always releases the latch. A part of an atomic
// batch already has a timestamp, and later timestamps are higher. applied reports whether the write has already been
// applied.
func (r *Replica) stampAndPropose(m *command.Mutation, held heldLatch, price ru.Units, done command.Completion) (
	applied bool, err error) {
	defer r.host.latches.leave(held)
	if held.latch != nil { // the state that admits checks must not change until the proposal; see latches.awaitHolders
		held.stripe.mu.Lock()
		defer held.stripe.mu.Unlock()
	}
	term, err := r.evaluating()
	if err != nil {
		return false, err
	}
	if err := r.admits(m); err != nil {
		return false, err
	}
	if m.Dedupe != (command.DedupeID{}) {
		if applied, err = r.dedupe.begin(m); applied || err != nil {
			return applied, err
		}
	}
	f := r.host.pendingWrites.Get().(*pendingWrite)
	f.replica, f.done, f.price = r, done, price
	f.id, f.token, f.key = m.Dedupe, m.Token, append(f.key[:0], m.Key...)
	r.stamping.Lock()
	defer r.stamping.Unlock()
	stamp := r.stamps.next(r.host.stampTime(m.Timestamp))
	if f, ok := done.(*viewWaiter); ok {
		f.stamp = stamp
	}
	f.entry = command.AddWrite(command.BeginWrite(f.entry[:0], r.state.Load().epoch, 1, nil), m, stamp)
	// The write must be added to the list before the proposal, because it may complete immediately.
	held.stripe.addPending(f)
	if err := r.seq.propose(term, f.entry, f); err != nil {
		held.stripe.removePending(f)
		if f.id != (command.DedupeID{}) {
			r.dedupe.end(f.id)
		}
		r.host.putPending(f)
		return false, r.refused(err)
	}
	return false, nil
}

// latchedProposal is a proposal whose keys are latched until the entry is applied.
type latchedProposal struct {
	replica *Replica
	latches []heldLatch
	done    func(o raftgroup.Outcome)
	release func()
}

// applied implements appliedNotifier. It releases the latches so that the next conditional writes to the keys can
// proceed.
func (w *latchedProposal) applied() {
	for _, g := range w.latches {
		w.replica.host.latches.leave(g)
	}
	w.latches = nil
	if w.release != nil {
		w.release()
		w.release = nil
	}
}

// Done implements raftgroup.Waiter. It is called on the sequencer's goroutine.
func (w *latchedProposal) Done(o raftgroup.Outcome) {
	w.applied()
	w.done(o)
}

// keepKey copies the key of a latch that outlives its request.
func (g heldLatch) keepKey() {
	g.stripe.mu.Lock()
	g.latch.key = bytes.Clone(g.latch.key)
	g.stripe.mu.Unlock()
}

// outcomeWaiter is a raftgroup.Waiter for a caller that blocks. Its channel must have a buffer of one.
type outcomeWaiter chan raftgroup.Outcome

// Done implements raftgroup.Waiter.
func (w outcomeWaiter) Done(o raftgroup.Outcome) { w <- o }

// waiterFunc adapts a function to raftgroup.Waiter.
type waiterFunc func(o raftgroup.Outcome)

// Done implements raftgroup.Waiter.
func (f waiterFunc) Done(o raftgroup.Outcome) { f(o) }

// Level returns the feature level of the partition according to this replica. Entries in the format of a higher level
// must not be proposed.
func (r *Replica) Level() feature.Level { return feature.Level(r.level.Load()) }

// Last returns a timestamp that is neither lower than any timestamp of the partition nor before the leader's clock. x
// is the extent of the partition. Only the leader can return this timestamp. who is the principal that executes the
// batch.
func (r *Replica) Last(ctx context.Context, x Extent, who fairshare.Principal) (stamp int64, err error) {
	if r.Throughput().Limited() {
		if err := r.throughput.admit(r.seq.evaluating(), who); err != nil {
			return 0, err // a batch must be rejected before it is recorded
		}
	}
	err = r.confirmAfter(ctx, func() error {
		stamp = max(r.stamps.last.Load(), r.host.micros())
		return r.matches(x)
	})
	return stamp, err
}

// Confirm returns nil if this replica led at some time after the call of Confirm.
func (r *Replica) Confirm(ctx context.Context) error {
	return r.confirmAfter(ctx, func() error { return nil })
}

// confirmAfter calls look and then confirms that the replica still leads.
func (r *Replica) confirmAfter(ctx context.Context, look func() error) error {
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	t := r.seq.lease()
	if t.term == 0 {
		return r.notLeader()
	}
	if err := look(); err != nil {
		return err
	}
	return r.seq.confirmRead(ctx, t, nil)
}
