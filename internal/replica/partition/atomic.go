// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// Part is one mutation of an atomic write and the replica it belongs to.
type Part struct {
	Replica  *Replica
	Mutation *command.Mutation
	// Updates, if not nil, is a conditional without conditions; Mutation is its own.
	Updates *command.Conditional
}

// errSeveral refuses what only stores that stand alone can do at once.
var errSeveral = errors.New("several partitions of a cluster cannot be written as one")

// WriteAtomic applies mutations of any replicas of the host as one: all or nothing, visible at once, with one stamp for all
// operands that came Unstamped. Updates are resolved on the rows as they are before it; if one cannot be, nothing is applied. parts is
// reordered and changed. It completes done or returns an error as Replica.Write does.
//
// In a cluster all parts belong to one replica: what several partitions do as one is the coordinator's business.
func (h *Host) WriteAtomic(ctx context.Context, parts []Part, done command.Completion) error {
	if len(parts) == 1 && parts[0].Updates == nil {
		return parts[0].Replica.Write(ctx, parts[0].Mutation, done)
	}
	if h.cluster != nil {
		if slices.ContainsFunc(parts, func(p Part) bool { return p.Replica != parts[0].Replica }) {
			return errSeveral
		}
		return parts[0].Replica.WriteAll(ctx, parts, done)
	}
	if err := h.writeAtomic(ctx, parts); err != nil {
		return err
	}
	h.committer.join(done)
	return nil
}

func (h *Host) writeAtomic(ctx context.Context, parts []Part) error {
	for i := range parts {
		if err := parts[i].Replica.begin(); err != nil {
			for _, p := range parts[:i] {
				p.Replica.end()
			}
			return err
		}
	}
	defer func() {
		for _, p := range parts {
			p.Replica.end()
		}
	}()
	if err := h.committer.admit(); err != nil {
		return err
	}
	held, err := h.latchAll(ctx, parts)
	if err == nil {
		err = h.commitAll(ctx, parts)
	}
	for _, g := range held {
		h.latches.leave(g)
	}
	if err != nil {
		h.committer.cancel()
		return err
	}
	for _, p := range parts {
		p.Replica.count.wrote(ru.Write(p.Mutation))
	}
	return nil
}

// latchAll takes the latches of all parts in ascending order of stripes, one per stripe (see latches). On an error it
// returns those it got.
func (h *Host) latchAll(ctx context.Context, parts []Part) ([]guard, error) {
	stripe := func(p Part) uint32 { return stripeOf(p.Mutation.Table, p.Mutation.Token) }
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(stripe(a), stripe(b)) })
	held := make([]guard, 0, len(parts))
	for i := 0; i < len(parts); {
		first := parts[i]
		s, sc := stripe(first), oneKey
		for i++; i < len(parts) && stripe(parts[i]) == s; i++ {
			if parts[i].Replica != first.Replica || !bytes.Equal(parts[i].Mutation.Key, first.Mutation.Key) {
				sc = wholeStripe
			}
		}
		g, err := h.latches.acquire(ctx, s, first.Replica, first.Mutation.Key, sc)
		if err != nil {
			return held, err
		}
		held = append(held, g)
	}
	return held, nil
}

// commitAll stamps and orders the parts, whose latches are held.
func (h *Host) commitAll(ctx context.Context, parts []Part) error {
	now := h.micros()
	stamp := now
	replicas := make([]*Replica, 0, len(parts))
	for i, p := range parts {
		if err := p.Replica.accepts(p.Mutation); err != nil {
			return err
		}
		if p.Updates != nil {
			var err error
			if parts[i].Mutation, err = p.Replica.resolve(ctx, p.Updates); err != nil {
				return err
			}
		}
		stamp = max(stamp, p.Replica.stamps.above(now))
		replicas = append(replicas, p.Replica)
	}
	slices.SortFunc(replicas, func(a, b *Replica) int { return cmp.Compare(a.id, b.id) })
	replicas = slices.Compact(replicas)
	b := Batch{Mutations: make([]*command.Mutation, 0, len(parts))}
	for _, p := range parts {
		stampAll(p.Mutation, stamp)
		b.Mutations = append(b.Mutations, p.Mutation)
	}
	for _, r := range replicas {
		r.stamps.observe(stamp)
	}
	if u := h.unsettled; u != nil {
		for _, p := range parts {
			u.slot(p.Mutation.Table, p.Mutation.Token).enter()
		}
		defer func() {
			for _, p := range parts {
				u.slot(p.Mutation.Table, p.Mutation.Token).leave(u.c)
			}
		}()
	}
	return h.orderAll(&b, replicas, stamp)
}

// orderAll is Replica.order for several replicas, in ascending order so that two of these never wait for each other.
func (h *Host) orderAll(b *Batch, replicas []*Replica, stamp int64) error {
	ceiling := stamp + stampReserve
	var raised []*Replica
	for _, r := range replicas {
		if stamp <= r.stamps.ceiling.Load() {
			continue
		}
		r.stamps.raising.Lock()
		defer r.stamps.raising.Unlock()
		if stamp > r.stamps.ceiling.Load() {
			b.Metas = append(b.Metas, r.metaWith(ceiling))
			raised = append(raised, r)
		}
	}
	if err := h.committer.order(b); err != nil {
		return err
	}
	for _, r := range raised {
		r.stamps.ceiling.Store(ceiling)
	}
	return nil
}

// resolve returns the mutation of a conditional without conditions, with its updates turned into operands. The caller holds the latch.
func (r *Replica) resolve(ctx context.Context, c *command.Conditional) (*command.Mutation, error) {
	f, units, err := r.find(ctx, c)
	if err != nil {
		return nil, err
	}
	r.count.read(units, f.rows, f.bytes)
	whole := c.Mutation
	whole.Ops, err = command.Resolve(slices.Clip(c.Mutation.Ops), c, f.found, row.Unstamped)
	return &whole, err
}
