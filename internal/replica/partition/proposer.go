// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// leading returns the group and the term in which this replica leads and knows everything older, or *NotLeader.
func (m *member) leading() (g *raftgroup.Group, term uint64, err error) {
	if g = m.group.Load(); g != nil {
		if term, ok := g.Evaluating(); ok {
			return g, term, nil
		}
	}
	return nil, 0, m.notLeader()
}

func (m *member) notLeader() error {
	node, _ := m.leader()
	return &NotLeader{Partition: m.replica.id, Leader: node}
}

// ended is the error of a proposal: what the log refused is in the result.
func (m *member) ended(o raftgroup.Outcome) error {
	switch {
	case o.Err == nil:
		err, _ := o.Result.(error)
		return err
	case errors.Is(o.Err, raftgroup.ErrUnknown):
		return ErrUncertain
	}
	return m.refused(o.Err)
}

// refused translates an error of the group after which nothing was done.
func (m *member) refused(err error) error {
	var bound *raftgroup.Refused
	switch {
	case errors.As(err, &bound) && bound.Bound == "ProposalBytes":
		return &dberr.Invalid{Message: "Mutation is larger than the log of a partition takes"}
	case errors.As(err, &bound):
		return &dberr.Overloaded{Message: "Too many requests are waiting for the log of the partition"}
	case errors.Is(err, raftgroup.ErrNotLeader), errors.Is(err, raftgroup.ErrStaleTerm), errors.Is(err, raftgroup.ErrReadTimeout):
		return m.notLeader()
	case errors.Is(err, raftgroup.ErrClosed):
		return ErrClosed
	}
	return err
}

// write is Replica.Write in a cluster: it proposes, and the flight completes done.
func (m *member) write(ctx context.Context, c *command.Mutation, done command.Completion) error {
	r := m.replica
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	g, err := r.host.latches.enter(ctx, r, c.Token, c.Key)
	if err != nil {
		return err
	}
	return m.writeUnder(g, c, done)
}

// writeNow is Replica.WriteNow in a cluster.
func (m *member) writeNow(c *command.Mutation, done command.Completion) (taken bool, err error) {
	r := m.replica
	if err := r.begin(); err != nil {
		return true, err
	}
	defer r.end()
	g, ok := r.host.latches.enterNow(r, c.Token, c.Key)
	if !ok {
		return false, nil
	}
	return true, m.writeUnder(g, c, done)
}

// writeUnder writes under a guard, which it gives up.
func (m *member) writeUnder(g guard, c *command.Mutation, done command.Completion) error {
	r := m.replica
	applied, err := m.launch(c, g, done)
	r.host.latches.leave(g)
	if err != nil {
		return err
	}
	r.count.wrote(ru.Write(c))
	if applied {
		done.Done(nil)
	}
	return nil
}

// launch stamps a blind write and proposes it, under the guard of its key: so the order of the log is that of the stamps. A part of an atomic
// batch brings its stamp along; what is stamped later is above that, too. applied says that the write was applied before.
func (m *member) launch(c *command.Mutation, held guard, done command.Completion) (applied bool, err error) {
	r := m.replica
	g, term, err := m.leading()
	if err != nil {
		return false, err
	}
	if err := m.admits(c); err != nil {
		return false, err
	}
	if c.Dedupe != (command.DedupeID{}) {
		age := time.Duration(c.Retried) * time.Millisecond
		if applied, err = m.recent.enter(c.Dedupe, age, m.cluster.clock.Now()); applied || err != nil {
			return applied, err
		}
	}
	f := m.cluster.flights.Get().(*flight)
	f.member, f.done, f.id, f.token, f.key = m, done, c.Dedupe, c.Token, append(f.key[:0], c.Key...)
	stamp := r.stamps.next(max(r.host.micros(), c.Timestamp))
	f.entry = command.AddWrite(command.BeginWrite(f.entry[:0], r.epoch(), 1, nil), c, stamp)
	// In the list before it is proposed: it may end at once.
	if held.latch != nil {
		held.stripe.mu.Lock()
		defer held.stripe.mu.Unlock()
	}
	held.stripe.takeOff(f)
	if err := m.cluster.runner.Propose(g, term, f.entry, f); err != nil {
		held.stripe.land(f)
		if f.id != (command.DedupeID{}) {
			m.recent.leave(f.id)
		}
		m.cluster.putFlight(f)
		return false, m.refused(err)
	}
	return false, nil
}

// admits refuses a mutation that must not be proposed: what a log has taken every replica applies, whatever its disk says.
func (m *member) admits(c *command.Mutation) error {
	if m.isMeta() || c.Table != m.replica.Table() {
		return m.replica.wrongRange()
	}
	if err := m.replica.accepts(c); err != nil {
		return err
	}
	return refused(m.cluster.machine.store.Admit(c))
}

// held is a proposal whose keys stay latched until it is applied.
type held struct {
	member  *member
	guards  []guard
	then    func(o raftgroup.Outcome)
	release func()
}

// Done implements raftgroup.Waiter. It is called on the loop.
func (w *held) Done(o raftgroup.Outcome) {
	for _, g := range w.guards {
		w.member.replica.host.latches.leave(g)
	}
	if w.release != nil {
		w.release()
	}
	w.then(o)
}

// keepKey gives a latch that outlives its request a key of its own.
func (g guard) keepKey() {
	g.stripe.mu.Lock()
	g.latch.key = bytes.Clone(g.latch.key)
	g.stripe.mu.Unlock()
}

// order proposes an entry that needs no latch, and waits until it is applied. A refusal of the log is an error.
func (m *member) order(ctx context.Context, e *command.Entry) (raftgroup.Outcome, error) {
	r := m.replica
	if err := r.begin(); err != nil {
		return raftgroup.Outcome{}, err
	}
	defer r.end()
	g, term, err := m.leading()
	if err != nil {
		return raftgroup.Outcome{}, err
	}
	e.Epoch = r.epoch()
	done := make(outcomes1, 1)
	if err := m.cluster.runner.Propose(g, term, command.AppendEntry(nil, e), done); err != nil {
		return raftgroup.Outcome{}, m.refused(err)
	}
	o, err := await(m.cluster.opts.Drive, patience{ctx: ctx}, done)
	if err != nil {
		return raftgroup.Outcome{}, errors.Join(ErrUncertain, err)
	}
	return o, m.ended(o)
}

// outcomes1 is a raftgroup.Waiter for somebody who blocks; it needs room for one.
type outcomes1 chan raftgroup.Outcome

// Done implements raftgroup.Waiter.
func (w outcomes1) Done(o raftgroup.Outcome) { w <- o }

// completing proposes an entry whose outcome completes done. release, if not nil, is called then; on an error it is the caller's.
func (m *member) completing(e *command.Entry, done command.Completion, release func()) error {
	g, term, err := m.leading()
	if err != nil {
		return err
	}
	e.Epoch = m.replica.epoch()
	w := &held{member: m, release: release, then: func(o raftgroup.Outcome) { m.complete(done, o) }}
	if err := m.cluster.runner.Propose(g, term, command.AppendEntry(nil, e), w); err != nil {
		return m.refused(err)
	}
	return nil
}

// sweep is Replica.Sweep in a cluster.
func (m *member) sweep(s *command.Sweep, done command.Completion) error {
	if !m.holdsAll(s) {
		return m.replica.wrongRange()
	}
	return m.completing(&command.Entry{Kind: command.EntrySweep, Sweep: *s}, done, nil)
}

// truncate is Replica.Truncate in a cluster. Conditions must not see rows that are about to go and write after they went, so all keys
// are latched until it is applied; blind writes are ordered by the log.
func (m *member) truncate(ctx context.Context, indexes []uint32, done command.Completion) error {
	r := m.replica
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if m.isMeta() {
		return r.wrongRange()
	}
	if _, _, err := m.leading(); err != nil {
		return err
	}
	release, err := r.host.freeze(ctx, r, wholeOwner)
	if err != nil {
		return err
	}
	if err := m.completing(&command.Entry{Kind: command.EntryTruncate, Span: r.state.Load().keys, Indexes: indexes}, done, release); err != nil {
		release()
		return err
	}
	return nil
}

// positionOf returns the place in its table's ring of a key of a row or an index entry.
func positionOf(key []byte) (token.Token, []byte, bool) {
	if p, ok := keys.Parse(key); ok {
		return p.Token, p.Key, true
	}
	e, ok := keys.ParseIndex(key)
	return e.Token, e.Key, ok
}
