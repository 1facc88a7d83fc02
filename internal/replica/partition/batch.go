// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Part is one mutation of an atomic write.
type Part struct {
	Mutation *command.Mutation
	// Updates is a conditional without conditions, or nil. If Updates is not nil, Mutation is the mutation of Updates.
	Updates *command.Conditional
}

// WriteAll applies several mutations of this partition atomically, with one timestamp for all Unstamped operands. It
// resolves updates on the rows from before the write. If an update is not possible, WriteAll applies no mutation. The
// dedupe ID of parts[0] applies to all parts. WriteAll completes done or returns an error, like Write. All keys are
// latched until the write is applied.
func (r *Replica) WriteAll(ctx context.Context, parts []Part, done command.Completion) error {
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	if _, err := r.evaluating(); err != nil {
		return err
	}
	if err := r.throughput.admitWrite(parts[0].Mutation); err != nil {
		return err
	}
	for i := range parts {
		if r.isMeta() || parts[i].Mutation.Table != r.Table() {
			return r.wrongRange()
		}
	}
	var hints [][]byte
	for i := range parts {
		hints = r.host.hintsOf(hints, parts[i].Mutation)
	}
	b := batchWrite{replica: r, parts: parts, done: awaitViews(r, done, hints)}
	err := b.latchAll(ctx)
	var proposed bool
	if err == nil {
		proposed, err = b.stampAndPropose(ctx)
	}
	if !proposed {
		for _, g := range b.latches {
			r.host.latches.leave(g)
		}
	}
	return err
}

// batchWrite is an atomic write in progress.
type batchWrite struct {
	replica *Replica
	parts   []Part
	done    command.Completion
	// latches holds the latches of all parts, one for each stripe.
	latches []heldLatch
}

// latchAll acquires one latch for each stripe of the parts, in ascending order of stripes (see latches).
func (b *batchWrite) latchAll(ctx context.Context) error {
	r := b.replica
	stripe := func(p Part) uint32 { return stripeOf(p.Mutation.Table, p.Mutation.Token) }
	parts := slices.Clone(b.parts)
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(stripe(a), stripe(b)) })
	b.latches = make([]heldLatch, 0, len(parts))
	for i := 0; i < len(parts); {
		first := parts[i]
		s, sc := stripe(first), oneKey
		for i++; i < len(parts) && stripe(parts[i]) == s; i++ {
			if !bytes.Equal(parts[i].Mutation.Key, first.Mutation.Key) {
				sc = wholeOwner
			}
		}
		g, err := r.host.latches.acquire(ctx, s, r, first.Mutation.Key, sc)
		if err != nil {
			return err
		}
		b.latches = append(b.latches, g)
	}
	return nil
}

// stampAndPropose resolves the parts and proposes them as one entry. The caller must have latched the keys.
func (b *batchWrite) stampAndPropose(ctx context.Context) (proposed bool, err error) {
	r, parts, done := b.replica, b.parts, b.done
	if err := b.awaitPending(ctx); err != nil {
		return false, err
	}
	t := r.seq.lease()
	if t.term == 0 {
		return false, r.notLeader()
	}
	first := parts[0].Mutation
	id := first.Dedupe
	once := id != command.DedupeID{}
	updates := slices.ContainsFunc(parts, func(p Part) bool { return p.Updates != nil })
	if once && updates {
		if done, err := b.appliedBefore(ctx, t); done || err != nil {
			return false, err
		}
	}
	ms, price, err := b.resolve(ctx)
	if err == nil {
		err = b.addChangeLog(ms)
	}
	if err != nil {
		return false, err
	}
	for _, m := range ms {
		p, _ := ru.Write(m)
		price += p
	}
	var result []byte
	switch {
	case once && updates:
		result = command.AppendCASResult(nil, &command.CASResult{Applied: true, Charge: int64(price)})
	case once:
		if applied, err := r.dedupe.begin(first); applied || err != nil {
			if applied {
				done.Done(command.Outcome{Charge: int64(price)})
			}
			return false, err
		}
	}
	remembered := once && !updates
	w := &latchedProposal{replica: r, latches: b.latches, done: func(o raftgroup.Outcome) {
		if remembered {
			r.dedupe.end(id)
		}
		r.complete(done, o, price)
	}}
	if err := b.propose(t.term, ms, result, w); err != nil {
		if remembered {
			r.dedupe.end(id)
		}
		return false, err
	}
	for i, m := range ms {
		kind := usage.Write
		if parts[i].Updates != nil {
			kind = usage.Applied
		}
		price, bytes := ru.Write(m)
		r.load.recordWrite(m.Principal, kind, price, bytes, m.Token)
	}
	return true, nil
}

// appliedBefore completes done if the dedupe record of the first part shows that the parts have already been applied.
// It must be called before the updates are resolved, because an update may be impossible on rows that it has already
// changed.
func (b *batchWrite) appliedBefore(ctx context.Context, t leaseToken) (bool, error) {
	r, parts, done := b.replica, b.parts, b.done
	first := parts[0].Mutation
	d, err := dedupeResult(r.host.store, first)
	for i := 0; i < len(parts) && d == nil && err == nil; i++ {
		if u := parts[i].Updates; u != nil {
			d, err = r.host.recordMissing(ctx, &command.Conditional{Mutation: *first, Issued: u.Issued})
		}
	}
	if d == nil || err != nil {
		return false, err
	}
	return true, r.refused(r.seq.confirmAsync(t, first.Table, first.Token, func(err error) {
		if err != nil {
			done.Done(command.Failed(err))
			return
		}
		done.Done(command.Outcome{Charge: d.Charge})
	}))
}

// propose proposes the mutations as one entry with one timestamp.
func (b *batchWrite) propose(term uint64, ms []*command.Mutation, result []byte, w *latchedProposal) error {
	r := b.replica
	for _, l := range w.latches {
		l.keepKey()
	}
	mu := &w.latches[0].stripe.mu // the mutex of any stripe; see Require
	mu.Lock()
	defer mu.Unlock()
	now := r.host.micros()
	for _, m := range ms {
		if err := r.admits(m); err != nil {
			return err
		}
		now = max(now, m.Timestamp)
	}
	r.stamping.Lock()
	defer r.stamping.Unlock()
	stamp := r.stamps.next(now)
	entry := command.BeginWrite(nil, r.state.Load().epoch, len(ms), result)
	for _, m := range ms {
		entry = command.AddWrite(entry, m, stamp)
	}
	return r.refused(r.seq.propose(term, entry, w))
}

// awaitPending waits for the pending blind writes to the keys of updates. The caller must have latched the keys.
func (b *batchWrite) awaitPending(ctx context.Context) error {
	r := b.replica
	for i := range b.parts {
		if m := b.parts[i].Mutation; b.parts[i].Updates != nil {
			s := &r.host.latches.stripes[stripeOf(m.Table, m.Token)]
			if err := s.awaitPending(ctx, r, m.Token, m.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// resolve returns the mutations of the parts, with updates resolved to operands, and the cost of the necessary reads.
func (b *batchWrite) resolve(ctx context.Context) (ms []*command.Mutation, read ru.Units, err error) {
	ms = make([]*command.Mutation, 0, len(b.parts))
	for i := range b.parts {
		m := b.parts[i].Mutation
		if b.parts[i].Updates != nil {
			var price ru.Units
			if m, price, err = b.resolveUpdates(ctx, b.parts[i].Updates); err != nil {
				return nil, 0, err
			}
			read += price
		}
		ms = append(ms, m)
	}
	return ms, read, nil
}

// resolveUpdates returns the mutation of a conditional without conditions, with all updates resolved to operands. The
// caller must hold the latch of the key.
func (b *batchWrite) resolveUpdates(ctx context.Context, c *command.Conditional) (*command.Mutation, ru.Units,
	error) {
	r := b.replica
	f, price, err := findRows(ctx, c, r.host.store.Read)
	if err != nil {
		return nil, 0, err
	}
	r.load.recordRead(c.Mutation.Principal, false, usage.Update, price, f.rows, f.bytes, c.Mutation.Token,
		c.Mutation.Key)
	whole := c.Mutation
	whole.Ops, err = command.Resolve(slices.Clip(c.Mutation.Ops), c, f.found, row.Unstamped)
	return &whole, price, err
}
