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

// Write applies a mutation and completes done once, or returns an error and never completes done: then nothing was
// done. The mutation stays as it is, but what Write keeps is copied before it returns. It waits only while a
// conditional write holds the logical partition.
func (r *Replica) Write(ctx context.Context, m *command.Mutation, done command.Completion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if err := r.affords(m); err != nil {
		return err
	}
	g, err := r.host.latches.enter(ctx, r, m.Token, m.Key)
	if err != nil {
		return err
	}
	return r.writeUnder(g, m, r.follows(done, m))
}

// WriteNow is Write for callers that must not wait: taken is false, and nothing was done, where Write might have to.
func (r *Replica) WriteNow(m *command.Mutation, done command.Completion) (taken bool, err error) {
	if err := r.begin(); err != nil {
		return true, err
	}
	defer r.end()
	if err := r.affords(m); err != nil {
		return true, err
	}
	g, ok := r.host.latches.enterNow(r, m.Token, m.Key)
	if !ok {
		return false, nil
	}
	return true, r.writeUnder(g, m, r.follows(done, m))
}

// writeUnder writes under a guard, which it gives up. Once the write is proposed done may have been told, and m be
// another one already.
func (r *Replica) writeUnder(g guard, m *command.Mutation, done command.Completion) error {
	price, bytes := ru.Write(m)
	tok, who := m.Token, m.Principal
	applied, err := r.launch(m, g, price, done)
	if err != nil {
		return err
	}
	r.wrote(who, usage.Write, price, bytes, tok)
	if applied {
		tellIndex(done, r.shown.Load())
		ru.Tell(done, price)
		done.Done(nil)
	}
	return nil
}

// launch stamps a blind write and proposes it, under the guard of its key, which it gives up in any case: so for each
// key the order of the log is that of the stamps. A part of an atomic batch brings its stamp along; what is stamped
// later is above that, too. applied says that the write was applied before.
func (r *Replica) launch(m *command.Mutation, held guard, price ru.Units, done command.Completion) (
	applied bool, err error) {
	defer r.host.latches.leave(held)
	if held.latch != nil { // what admits sees must not change before the write is proposed; see latches.pass
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
		if applied, err = r.recent.enter(m); applied || err != nil {
			return applied, err
		}
	}
	f := r.host.flights.Get().(*flight)
	f.replica, f.done, f.price = r, done, price
	f.id, f.token, f.key = m.Dedupe, m.Token, append(f.key[:0], m.Key...)
	r.stamping.Lock()
	defer r.stamping.Unlock()
	stamp := r.stamps.next(r.host.stampTime(m.Timestamp))
	if f, ok := done.(*followed); ok {
		f.stamp = stamp
	}
	f.entry = command.AddWrite(command.BeginWrite(f.entry[:0], r.epoch(), 1, nil), m, stamp)
	// In the list before it is proposed: it may end at once.
	held.stripe.takeOff(f)
	if err := r.seq.propose(term, f.entry, f); err != nil {
		held.stripe.land(f)
		if f.id != (command.DedupeID{}) {
			r.recent.leave(f.id)
		}
		r.host.putFlight(f)
		return false, r.refused(err)
	}
	return false, nil
}

// held is a proposal whose keys stay latched until it is applied.
type held struct {
	replica *Replica
	guards  []guard
	then    func(o raftgroup.Outcome)
	release func()
}

// applied implements early: the next conditional of the keys sees it now.
func (w *held) applied() {
	for _, g := range w.guards {
		w.replica.host.latches.leave(g)
	}
	w.guards = nil
	if w.release != nil {
		w.release()
		w.release = nil
	}
}

// Done implements raftgroup.Waiter. It is called on the sequencer's goroutine.
func (w *held) Done(o raftgroup.Outcome) {
	w.applied()
	w.then(o)
}

// keepKey gives a latch that outlives its request a key of its own.
func (g guard) keepKey() {
	g.stripe.mu.Lock()
	g.latch.key = bytes.Clone(g.latch.key)
	g.stripe.mu.Unlock()
}

// order proposes an entry that needs no latch, and waits until it is applied. A refusal of the log is an error. The
// entry's epoch is the partition's unless it names one.
func (r *Replica) order(ctx context.Context, e *command.Entry) (raftgroup.Outcome, error) {
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
	o, err := await(r.host.drive, patience{ctx: ctx}, done)
	if err != nil {
		return raftgroup.Outcome{}, errors.Join(ErrUncertain, err)
	}
	return o, r.ended(o)
}

// outcomeWaiter is a raftgroup.Waiter for a caller that blocks; it needs room for one.
type outcomeWaiter chan raftgroup.Outcome

// Done implements raftgroup.Waiter.
func (w outcomeWaiter) Done(o raftgroup.Outcome) { w <- o }

// waiting is a raftgroup.Waiter.
type waiting func(o raftgroup.Outcome)

// Done implements raftgroup.Waiter.
func (f waiting) Done(o raftgroup.Outcome) { f(o) }

// completing proposes an entry whose outcome completes done. release, if not nil, is called then; on an error it is the
// caller's. The entry's epoch is as in order.
func (r *Replica) completing(e *command.Entry, done command.Completion, release func()) error {
	term, err := r.evaluating()
	if err != nil {
		return err
	}
	if e.Epoch == 0 {
		e.Epoch = r.epoch()
	}
	w := &held{replica: r, release: release, then: func(o raftgroup.Outcome) { r.complete(done, o, 0) }}
	if err := r.seq.propose(term, command.AppendEntry(nil, e), w); err != nil {
		return r.refused(err)
	}
	return nil
}

// Sweep removes what nobody can see any more, and completes done or returns an error as Write does. It needs no latch:
// what readers see does not change. In a table with a change log use SweepAlone.
func (r *Replica) Sweep(s *command.Sweep, done command.Completion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if !r.holdsAll(s) {
		return r.wrongRange()
	}
	return r.completing(&command.Entry{Kind: command.EntrySweep, Sweep: *s}, done, nil)
}

// SweepAlone is Sweep for a table with a change log: it latches all keys until it is applied. A deletion that is swept
// may have hidden a write of an older timestamp from who made the images of that write, and hides it no more when the
// write is applied after the sweep: then the row would change without an entry in the log.
func (r *Replica) SweepAlone(ctx context.Context, s *command.Sweep, done command.Completion) error {
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
		err = r.completing(&command.Entry{Kind: command.EntrySweep, Sweep: *s}, done, release)
	}
	if err != nil {
		release()
	}
	return err
}

// Truncation is what a TRUNCATE removes.
type Truncation struct {
	// Indexes are those of the table's indexes whose entries are removed, too.
	Indexes []uint32
	// Attempt, if not nil, has the dedupe ID of the truncation, and says what kind of attempt this is (Retried, Sent,
	// Known). A truncation is applied once: a late attempt would remove rows that were written since.
	Attempt *command.Mutation
}

// Truncate removes all rows, and their entries in the given indexes of the table, and completes done or returns an
// error as Write does; *WrongRange unless the replica holds the extent x. Conditions must not see rows that are about
// to go and write after they went, so all keys are latched until it is applied; blind writes are ordered by the log.
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
		applied, err := r.recent.enter(t.Attempt)
		if applied || err != nil {
			release()
			if applied {
				tellIndex(done, r.shown.Load())
				done.Done(nil)
			}
			return err
		}
		if r.Level() >= feature.TruncationIDs {
			e.ID = t.Attempt.Dedupe
		}
		id, unfreeze := t.Attempt.Dedupe, release
		release = func() {
			r.recent.leave(id)
			unfreeze()
		}
	}
	if err := r.completing(e, done, release); err != nil {
		release()
		return err
	}
	return nil
}

// freeze keeps all writers of the replica away until release is called.
func (r *Replica) freeze(ctx context.Context) (release func(), err error) {
	held := make([]guard, 0, stripeCount)
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

// Require makes the partition refuse mutations that were planned for an older revision of the schema, with
// ErrStaleSchema. When it returns, those that were accepted before are applied. Only the leader can, and only one that
// holds the extent x.
//
// The leader refuses them from the beginning, before they are proposed, and proposes the requirement after what it has
// accepted: so it is only after a change of leaders that a write is refused by the log.
func (r *Replica) Require(ctx context.Context, x Extent, revision uint64) error {
	if _, err := r.evaluating(); err != nil {
		return err
	}
	if err := r.matches(x); err != nil {
		return err
	}
	r.raiseSchema(revision)
	r.host.latches.pass()
	e := &command.Entry{Kind: command.EntryRequire, Epoch: x.Epoch, Span: x.Span, SchemaVersion: revision}
	_, err := r.order(ctx, e)
	return err
}

// Level is the feature level that the partition's log has installed, as far as this replica has applied it. What is
// proposed in a higher one's form would not be understood.
func (r *Replica) Level() feature.Level { return feature.Level(r.level.Load()) }

// RaiseLevel raises the feature level of the partition by an entry of its log; only the leader can. Every node with a
// replica must understand the level: one that does not stops when it applies the entry, before it writes anything.
func (r *Replica) RaiseLevel(ctx context.Context, level feature.Level) error {
	_, err := r.order(ctx, &command.Entry{Kind: command.EntryFeature, Level: level})
	return err
}

// Last returns a stamp that is not below any which the partition of extent x has given, nor before the leader's clock.
// Only the leader knows. It is asked for a batch of a claimant.
func (r *Replica) Last(ctx context.Context, x Extent, who fairshare.Principal) (stamp int64, err error) {
	if r.Budgeted() {
		if err := r.admit(r.seq.evaluating(), who); err != nil {
			return 0, err // a batch over several partitions is refused before it is recorded, or not at all
		}
	}
	err = r.confirmed(ctx, func() error {
		stamp = max(r.stamps.last.Load(), r.host.micros())
		return r.matches(x)
	})
	return stamp, err
}

// Confirm returns nil if this replica led at a moment after Confirm was called.
func (r *Replica) Confirm(ctx context.Context) error {
	return r.confirmed(ctx, func() error { return nil })
}

// confirmed calls look, and confirms then that the replica still leads.
func (r *Replica) confirmed(ctx context.Context, look func() error) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	t := r.seq.hold()
	if t.term == 0 {
		return r.notLeader()
	}
	if err := look(); err != nil {
		return err
	}
	return r.seq.confirm(ctx, t, nil)
}

// positionOf returns the place in its table's ring of a key of a row or an index entry.
func positionOf(key []byte) (keys.Position, bool) {
	if p, ok := keys.Parse(key); ok {
		return p.Position(), true
	}
	e, ok := keys.ParseIndex(key)
	return e.Position(), ok
}
