// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Write applies a mutation and completes done once, or returns an error without completing done; nothing was done in
// that case. It does not modify the mutation, and copies everything that it keeps. It waits only while a conditional
// write holds the logical partition.
func (r *Replica) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if err := r.admitWrite(m); err != nil {
		return err
	}
	g, err := r.host.latches.enter(ctx, r, m.Token, m.Key)
	if err != nil {
		return err
	}
	return r.writeUnder(g, m, r.awaitViews(done, m))
}

// WriteNow is Write for callers that must not wait. If Write might have to wait, taken is false and nothing was done.
func (r *Replica) WriteNow(m *command.Mutation, done command.Completion) (taken bool, err error) {
	if err := r.begin(); err != nil {
		return true, err
	}
	defer r.end()
	if err := r.admitWrite(m); err != nil {
		return true, err
	}
	g, ok := r.host.latches.enterNow(r, m.Token, m.Key)
	if !ok {
		return false, nil
	}
	return true, r.writeUnder(g, m, r.awaitViews(done, m))
}

// writeUnder writes under a latch and releases it. Once the write is proposed, done may have been called, and m may
// have been reused.
func (r *Replica) writeUnder(g heldLatch, m *command.Mutation, done command.Completion) error {
	price, bytes := ru.Write(m)
	tok, who := m.Token, m.Principal
	applied, err := r.stampAndPropose(m, g, price, done)
	switch {
	case err != nil:
		return err
	case applied: // an earlier attempt has been charged
		done.Done(command.Outcome{Index: r.visible.Load(), Charge: int64(price)})
	default:
		r.recordWrite(who, usage.Write, price, bytes, tok)
	}
	return nil
}

// stampAndPropose assigns a timestamp to a blind write and proposes it, under the latch of its key, which it always
// releases. For each key, the log is therefore in the order of the timestamps. A part of an atomic batch comes with its
// timestamp; later timestamps are above it, too. applied reports whether the write was applied before.
func (r *Replica) stampAndPropose(m *command.Mutation, held heldLatch, price ru.Units, done command.Completion) (
	applied bool, err error) {
	defer r.host.latches.leave(held)
	if held.latch != nil { // the state that admits checks must not change before the proposal; see latches.awaitHolders
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
	f.entry = command.AddWrite(command.BeginWrite(f.entry[:0], r.epoch(), 1, nil), m, stamp)
	// Added to the list before it is proposed, because it may complete immediately.
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

// latchedProposal is a proposal whose keys stay latched until it is applied.
type latchedProposal struct {
	replica *Replica
	latches []heldLatch
	done    func(o raftgroup.Outcome)
	release func()
}

// applied implements appliedNotifier: the next conditional writes to the keys can proceed.
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

// proposeAndWait proposes an entry that needs no latch, and waits until it is applied. A rejection by the log is
// returned as an error. If the entry has no epoch, it gets the current epoch of the partition.
func (r *Replica) proposeAndWait(ctx context.Context, e *command.Entry) (raftgroup.Outcome, error) {
	if err := r.begin(); err != nil {
		return raftgroup.Outcome{}, err
	}
	defer r.end()
	term, err := r.evaluating()
	if err != nil {
		return raftgroup.Outcome{}, err
	}
	if e.Epoch == 0 {
		e.Epoch = r.epoch()
	}
	done := make(outcomeWaiter, 1)
	if err := r.seq.propose(term, command.AppendEntry(nil, e), done); err != nil {
		return raftgroup.Outcome{}, r.refused(err)
	}
	o, err := await(r.host.sim, waitLimit{ctx: ctx}, done)
	if err != nil {
		return raftgroup.Outcome{}, errors.Join(ErrUncertain, err)
	}
	return o, r.ended(o)
}

// outcomeWaiter is a raftgroup.Waiter for a caller that blocks. It needs a buffer of one.
type outcomeWaiter chan raftgroup.Outcome

// Done implements raftgroup.Waiter.
func (w outcomeWaiter) Done(o raftgroup.Outcome) { w <- o }

// waiterFunc is a function that implements raftgroup.Waiter.
type waiterFunc func(o raftgroup.Outcome)

// Done implements raftgroup.Waiter.
func (f waiterFunc) Done(o raftgroup.Outcome) { f(o) }

// proposeEntry proposes an entry whose outcome completes done. release, if not nil, is called then; after an error, the
// caller must call it. The epoch is set as in proposeAndWait.
func (r *Replica) proposeEntry(e *command.Entry, done command.Completion, release func()) error {
	term, err := r.evaluating()
	if err != nil {
		return err
	}
	if e.Epoch == 0 {
		e.Epoch = r.epoch()
	}
	w := &latchedProposal{replica: r, release: release, done: func(o raftgroup.Outcome) { r.complete(done, o, 0) }}
	if err := r.seq.propose(term, command.AppendEntry(nil, e), w); err != nil {
		return r.refused(err)
	}
	return nil
}

// Sweep removes data that no reader can see. It completes done or returns an error, like Write. It needs no latch,
// because it does not change what readers see. SweepLatched must be used for a table with a change log.
func (r *Replica) Sweep(s *command.Sweep, done command.Completion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if !r.holdsAll(s) {
		return r.wrongRange()
	}
	return r.proposeEntry(&command.Entry{Kind: command.EntrySweep, Sweep: *s}, done, nil)
}

// SweepLatched is Sweep for a table with a change log: it latches all keys until it is applied. A deletion to be swept
// may have hidden a write with an older timestamp when the images of that write were created. If the write is applied
// after the sweep, nothing hides it, and the row would change without an entry in the change log.
func (r *Replica) SweepLatched(ctx context.Context, s *command.Sweep, done command.Completion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	release, err := r.freeze(ctx)
	if err != nil {
		return err
	}
	if !r.holdsAll(s) {
		err = r.wrongRange()
	} else {
		err = r.proposeEntry(&command.Entry{Kind: command.EntrySweep, Sweep: *s}, done, release)
	}
	if err != nil {
		release()
	}
	return err
}

// Truncation describes the data that a TRUNCATE removes.
type Truncation struct {
	// Indexes holds the indexes of the table whose entries are removed as well.
	Indexes []uint32
	// Attempt, if not nil, contains the dedupe ID of the truncation and the kind of this attempt (Retried, Sent,
	// Known). A truncation is applied once: a late attempt would remove rows written since.
	Attempt *command.Mutation
}

// Truncate removes all rows, and their entries in the given indexes, and completes done or returns an error, like
// Write. It returns *WrongRange unless the replica has extent x. All keys are latched until it is applied, because
// conditional writes must not read rows before the truncation and write after it. The log orders blind writes.
func (r *Replica) Truncate(ctx context.Context, x Extent, t Truncation, done command.Completion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if r.isMeta() {
		return r.wrongRange()
	}
	if _, err := r.evaluating(); err != nil {
		return err
	}
	release, err := r.freeze(ctx)
	if err != nil {
		return err
	}
	if err := r.matches(x); err != nil {
		release()
		return err
	}
	e := &command.Entry{Kind: command.EntryTruncate, Epoch: x.Epoch, Span: x.Span, Indexes: t.Indexes}
	if t.Attempt != nil {
		applied, err := r.dedupe.begin(t.Attempt)
		if applied || err != nil {
			release()
			if applied {
				done.Done(command.Outcome{Index: r.visible.Load()})
			}
			return err
		}
		if r.Level() >= feature.TruncationIDs {
			e.ID = t.Attempt.Dedupe
		}
		id, unfreeze := t.Attempt.Dedupe, release
		release = func() {
			r.dedupe.end(id)
			unfreeze()
		}
	}
	if err := r.proposeEntry(e, done, release); err != nil {
		release()
		return err
	}
	return nil
}

// freeze blocks all writers of the replica until release is called.
func (r *Replica) freeze(ctx context.Context) (release func(), err error) {
	held := make([]heldLatch, 0, stripeCount)
	release = func() {
		for _, g := range held {
			r.host.latches.leave(g)
		}
	}
	for i := range uint32(stripeCount) {
		g, err := r.host.latches.acquire(ctx, i, r, nil, wholeOwner)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, g)
	}
	return release, nil
}

// Require makes the partition reject mutations planned for an older revision of the schema, with ErrStaleSchema. When
// it returns, all mutations accepted before are applied. Only the leader can do this, and only if it has extent x.
//
// The leader rejects such mutations immediately, before they are proposed, and proposes the requirement after the
// mutations that it has accepted. The log therefore rejects a write only after a change of leaders.
func (r *Replica) Require(ctx context.Context, x Extent, revision uint64) error {
	if _, err := r.evaluating(); err != nil {
		return err
	}
	if err := r.matches(x); err != nil {
		return err
	}
	r.raiseSchema(revision)
	r.host.latches.awaitHolders()
	e := &command.Entry{Kind: command.EntryRequire, Epoch: x.Epoch, Span: x.Span, SchemaVersion: revision}
	_, err := r.proposeAndWait(ctx, e)
	return err
}

// Level returns the feature level installed by the partition's log, as far as this replica has applied it. Entries in
// the format of a higher level must not be proposed.
func (r *Replica) Level() feature.Level { return feature.Level(r.level.Load()) }

// RaiseLevel raises the feature level of the partition with an entry in its log. Only the leader can do this. Every
// node with a replica must support the level: a node that does not stops when it applies the entry, before it writes
// anything.
func (r *Replica) RaiseLevel(ctx context.Context, level feature.Level) error {
	_, err := r.proposeAndWait(ctx, &command.Entry{Kind: command.EntryFeature, Level: level})
	return err
}

// Last returns a timestamp that is at least the highest one assigned by the partition of extent x, and not before the
// leader's clock. Only the leader knows it. It is requested for a batch of a claimant.
func (r *Replica) Last(ctx context.Context, x Extent, who fairshare.Principal) (stamp int64, err error) {
	if r.Budgeted() {
		if err := r.admit(r.seq.evaluating(), who); err != nil {
			return 0, err // a batch over several partitions is rejected before it is recorded, or not at all
		}
	}
	err = r.confirmAfter(ctx, func() error {
		stamp = max(r.stamps.last.Load(), r.host.micros())
		return r.matches(x)
	})
	return stamp, err
}

// Confirm returns nil if this replica led at some time after Confirm was called.
func (r *Replica) Confirm(ctx context.Context) error {
	return r.confirmAfter(ctx, func() error { return nil })
}

// confirmAfter calls look and then confirms that the replica still leads.
func (r *Replica) confirmAfter(ctx context.Context, look func() error) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	t := r.seq.lease()
	if t.term == 0 {
		return r.notLeader()
	}
	if err := look(); err != nil {
		return err
	}
	return r.seq.confirmRead(ctx, t, nil)
}

// positionOf returns the ring position of the key of a row or an index entry.
func positionOf(key []byte) (keys.Position, bool) {
	if p, ok := keys.Parse(key); ok {
		return p.Position(), true
	}
	e, ok := keys.ParseIndex(key)
	return e.Position(), ok
}
