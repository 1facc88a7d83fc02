// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Control proposes log entries for splits, merges, sweeps, truncations, schema revisions, and feature levels of a
// partition. Only the leader can propose entries.
type Control struct{ replica *Replica }

// Control returns the control of the partition.
func (r *Replica) Control() Control { return Control{r} }

// proposeAndWait proposes an entry that needs no latch, and waits until the entry is applied. It returns an error if
// the log rejects the entry. If the entry has no epoch, proposeAndWait sets the current epoch of the partition.
func (c Control) proposeAndWait(ctx context.Context, e *command.Entry) (raftgroup.Outcome, error) {
	r := c.replica
	if err := r.requests.begin(); err != nil {
		return raftgroup.Outcome{}, err
	}
	defer r.requests.end()
	term, err := r.evaluating()
	if err != nil {
		return raftgroup.Outcome{}, err
	}
	if e.Epoch == 0 {
		e.Epoch = r.state.Load().epoch
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

// proposeEntry proposes an entry whose outcome completes done. If release is not nil, it is called at the same time. If
// proposeEntry returns an error, the caller must call release. proposeEntry sets the epoch like proposeAndWait.
func (c Control) proposeEntry(e *command.Entry, done command.Completion, release func()) error {
	r := c.replica
	term, err := r.evaluating()
	if err != nil {
		return err
	}
	if e.Epoch == 0 {
		e.Epoch = r.state.Load().epoch
	}
	w := &latchedProposal{replica: r, release: release, done: func(o raftgroup.Outcome) { r.complete(done, o, 0) }}
	if err := r.seq.propose(term, command.AppendEntry(nil, e), w); err != nil {
		return r.refused(err)
	}
	return nil
}

// Sweep removes data that no reader can see. It completes done or returns an error, like Write. It needs no latch,
// because it does not change visible data. For a table with a change log, the caller must use SweepLatched instead.
func (c Control) Sweep(s *command.Sweep, done command.Completion) error {
	r := c.replica
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	if !holdsAll(r, s) {
		return r.wrongRange()
	}
	return c.proposeEntry(&command.Entry{Kind: command.EntrySweep, Sweep: *s}, done, nil)
}

// SweepLatched executes Sweep for a table with a change log. It latches all keys until the sweep is applied. Without
// the latches, the sweep could remove a deletion that hides a write whose images have already been created. This write
// would then change the row without a change log entry.
func (c Control) SweepLatched(ctx context.Context, s *command.Sweep, done command.Completion) error {
	r := c.replica
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	release, err := c.latchAll(ctx)
	if err != nil {
		return err
	}
	if !holdsAll(r, s) {
		err = r.wrongRange()
	} else {
		err = c.proposeEntry(&command.Entry{Kind: command.EntrySweep, Sweep: *s}, done, release)
	}
	if err != nil {
		release()
	}
	return err
}

// Truncation describes the data that a TRUNCATE removes.
type Truncation struct {
	// Indexes holds the indexes whose entries are also removed.
	Indexes []uint32
	// Attempt contains the dedupe ID of the truncation and describes this attempt (Retried, Sent, Known). It may be
	// nil. The dedupe ID prevents a late attempt from removing rows that were written after the first attempt.
	Attempt *command.Mutation
}

// Truncate removes all rows and their entries in the given indexes. It completes done or returns an error, like Write.
// It returns *WrongRange unless the replica has extent x. All keys are latched until the truncation is applied, because
// a conditional write must not read before the truncation and write after it.
func (r *Replica) Truncate(ctx context.Context, x Extent, t Truncation, done command.Completion) error {
	c := r.Control()
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	if r.isMeta() {
		return r.wrongRange()
	}
	if _, err := r.evaluating(); err != nil {
		return err
	}
	release, err := c.latchAll(ctx)
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
		id, unlatch := t.Attempt.Dedupe, release
		release = func() {
			r.dedupe.end(id)
			unlatch()
		}
	}
	if err := c.proposeEntry(e, done, release); err != nil {
		release()
		return err
	}
	return nil
}

// latchAll blocks all writers of the replica until release is called.
func (c Control) latchAll(ctx context.Context) (release func(), err error) {
	r := c.replica
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

// Require makes the partition reject mutations that were planned for a schema revision older than revision, with
// ErrStaleSchema. When Require returns, all previously accepted mutations have been applied. It returns an error unless
// this replica leads and has extent x.
//
// The leader immediately stops proposing older mutations and then proposes the requirement. The log therefore rejects a
// mutation only after a leader change.
func (r *Replica) Require(ctx context.Context, x Extent, revision uint64) error {
	if _, err := r.evaluating(); err != nil {
		return err
	}
	if err := r.matches(x); err != nil {
		return err
	}
	r.schema.raise(revision)
	r.host.latches.awaitHolders()
	e := &command.Entry{Kind: command.EntryRequire, Epoch: x.Epoch, Span: x.Span, SchemaVersion: revision}
	_, err := r.Control().proposeAndWait(ctx, e)
	return err
}

// RaiseLevel raises the feature level of the partition with an entry in its log. It returns an error if this replica
// does not lead. Every node with a replica must support the level, because a node without support stops when it applies
// the entry.
func (c Control) RaiseLevel(ctx context.Context, level feature.Level) error {
	_, err := c.proposeAndWait(ctx, &command.Entry{Kind: command.EntryFeature, Level: level})
	return err
}

// holdsAll reports whether all keys of a sweep belong to the replica.
func holdsAll(r *Replica, s *command.Sweep) bool {
	state := r.state.Load()
	if r.isMeta() || s.Table != state.keys.Table {
		return false
	}
	for _, key := range s.Keys {
		if at, ok := positionOf(key); !ok || !state.serves(at) {
			return false
		}
	}
	return true
}

// positionOf returns the ring position of a row or an index entry.
func positionOf(key []byte) (keys.Position, bool) {
	if p, ok := keys.Parse(key); ok {
		return p.Position(), true
	}
	e, ok := keys.ParseIndex(key)
	return e.Position(), ok
}
