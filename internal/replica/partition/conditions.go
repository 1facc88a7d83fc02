// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// decide is Replica.Decide in a cluster. The latch is held until the entry is applied, so the next conditional of the key sees it, and
// is taken before the blind writes in front of it are applied, so it waits for those. A condition that fails writes nothing: it is
// told when the leadership was confirmed after what it read.
func (m *member) decide(ctx context.Context, c *command.Conditional, done command.DecisionCompletion) error {
	r := m.replica
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	key := &c.Mutation
	if m.isMeta() || key.Table != r.Table() {
		return r.wrongRange()
	}
	if _, _, err := m.leading(); err != nil {
		return err // before it queues in vain
	}
	held, err := r.host.latches.acquire(ctx, stripeOf(key.Table, key.Token), r, key.Key, oneKey)
	if err != nil {
		return err
	}
	proposed, err := m.judge(ctx, c, held, done)
	if !proposed {
		r.host.latches.leave(held)
	}
	return err
}

// judge evaluates under the latch. If it has proposed an entry, that leaves the latch.
func (m *member) judge(ctx context.Context, c *command.Conditional, latch guard, done command.DecisionCompletion) (proposed bool, err error) {
	r, key := m.replica, &c.Mutation
	if err := latch.stripe.settle(ctx, m, key.Token, key.Key, r.host.opts.LatchWait); err != nil {
		return false, err
	}
	g, term, err := m.leading()
	if err != nil {
		return false, err
	}
	lease := g.Lease()
	v, err := r.evaluate(ctx, c)
	if err != nil {
		return false, err
	}
	if v.whole == nil {
		return false, m.answer(g, term, lease, v.decision, done)
	}
	if err := m.admits(v.whole); err != nil {
		return false, err
	}
	stamp := r.stamps.next(max(r.host.micros(), v.whole.Timestamp))
	entry := command.AddWrite(command.BeginWrite(nil, r.epoch(), 1, v.result), v.whole, stamp)
	v.decision.Timestamp = stamp
	latch.keepKey()
	price, written := ru.Write(v.whole)
	err = m.cluster.runner.Propose(g, term, entry, &held{member: m, guards: []guard{latch}, then: func(o raftgroup.Outcome) {
		m.decided(done, v.decision, o)
	}})
	if err != nil {
		return false, m.refused(err)
	}
	r.count.wrote(price, written)
	return true, nil
}

// decided tells how the entry of a conditional ended.
func (m *member) decided(done command.DecisionCompletion, d *command.Decision, o raftgroup.Outcome) {
	if err := m.ended(o); err != nil {
		done.Decided(nil, err)
		return
	}
	if i, ok := done.(Indexed); ok {
		i.At(o.Index)
	}
	done.Decided(d, nil)
}

// answer tells a decision that writes nothing as soon as it is sure that this replica still led when it read: by the clock under the
// lease from before, else by asking a quorum now.
func (m *member) answer(g *raftgroup.Group, term, lease uint64, d *command.Decision, done command.DecisionCompletion) error {
	if g.Leased(lease, m.cluster.clock.Now()) {
		done.Decided(d, nil)
		return nil
	}
	err := m.cluster.runner.ReadIndex(g, waiting(func(o raftgroup.Outcome) {
		if err := m.stillLeads(g, term, o.Err); err != nil {
			done.Decided(nil, err)
			return
		}
		done.Decided(d, nil)
	}))
	if err != nil {
		return m.refused(err)
	}
	return nil
}

// waiting is a raftgroup.Waiter.
type waiting func(o raftgroup.Outcome)

// Done implements raftgroup.Waiter.
func (f waiting) Done(o raftgroup.Outcome) { f(o) }

// stillLeads translates the outcome of a read index that is to confirm what was read before it in a term.
func (m *member) stillLeads(g *raftgroup.Group, term uint64, err error) error {
	if err != nil {
		return m.refused(err)
	}
	if now, ok := g.Evaluating(); !ok || now != term {
		return m.notLeader()
	}
	return nil
}

// writeAll is Replica.WriteAll in a cluster: one entry. All keys are latched until it is applied.
func (m *member) writeAll(ctx context.Context, parts []Part, done command.Completion) error {
	r := m.replica
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	if _, _, err := m.leading(); err != nil {
		return err
	}
	for i := range parts {
		parts[i].Replica = r
		if m.isMeta() || parts[i].Mutation.Table != r.Table() {
			return r.wrongRange()
		}
	}
	latches, err := r.host.latchAll(ctx, slices.Clone(parts))
	var proposed, applied bool
	if err == nil {
		proposed, applied, err = m.launchAll(ctx, parts, latches, done)
	}
	if !proposed {
		for _, g := range latches {
			r.host.latches.leave(g)
		}
	}
	if err == nil && applied {
		done.Done(nil)
	}
	return err
}

// launchAll is launch for several mutations, whose keys are latched. The order of parts counts: the id is that of the first one.
func (m *member) launchAll(ctx context.Context, parts []Part, latches []guard, done command.Completion) (proposed, applied bool, err error) {
	r := m.replica
	g, term, ms, err := m.resolveAll(ctx, parts)
	if err != nil {
		return false, false, err
	}
	updates := slices.ContainsFunc(parts, func(p Part) bool { return p.Updates != nil })
	id := parts[0].Mutation.Dedupe
	once := id != command.DedupeID{}
	var result []byte
	switch {
	case once && updates:
		if d, err := r.repeated(parts[0].Mutation); d != nil || err != nil {
			return false, d != nil, err
		}
		result = command.AppendDecision(nil, &command.Decision{Applied: true})
	case once:
		age := time.Duration(parts[0].Mutation.Retried) * time.Millisecond
		if applied, err := m.recent.enter(id, age, m.cluster.clock.Now()); applied || err != nil {
			return false, applied, err
		}
	}
	remembered := once && !updates
	now := r.host.micros()
	for _, c := range ms {
		now = max(now, c.Timestamp)
	}
	stamp := r.stamps.next(now)
	entry := command.BeginWrite(nil, r.epoch(), len(ms), result)
	for _, c := range ms {
		entry = command.AddWrite(entry, c, stamp)
	}
	for _, l := range latches {
		l.keepKey()
	}
	err = m.cluster.runner.Propose(g, term, entry, &held{member: m, guards: latches, then: func(o raftgroup.Outcome) {
		if remembered {
			m.recent.leave(id)
		}
		m.complete(done, o)
	}})
	if err != nil {
		if remembered {
			m.recent.leave(id)
		}
		return false, false, m.refused(err)
	}
	for _, c := range ms {
		r.count.wrote(ru.Write(c))
	}
	return true, false, nil
}

// resolveAll returns the mutations of parts with their updates turned into operands, and the term in which that is true.
func (m *member) resolveAll(ctx context.Context, parts []Part) (*raftgroup.Group, uint64, []*command.Mutation, error) {
	r := m.replica
	for i := range parts {
		if c := parts[i].Mutation; parts[i].Updates != nil {
			s := &r.host.latches.stripes[stripeOf(c.Table, c.Token)]
			if err := s.settle(ctx, m, c.Token, c.Key, r.host.opts.LatchWait); err != nil {
				return nil, 0, nil, err
			}
		}
	}
	g, term, err := m.leading()
	if err != nil {
		return nil, 0, nil, err
	}
	ms := make([]*command.Mutation, 0, len(parts))
	for i := range parts {
		c := parts[i].Mutation
		if parts[i].Updates != nil {
			if c, err = r.resolve(ctx, parts[i].Updates); err != nil {
				return nil, 0, nil, err
			}
		}
		if err := m.admits(c); err != nil {
			return nil, 0, nil, err
		}
		ms = append(ms, c)
	}
	return g, term, ms, nil
}
