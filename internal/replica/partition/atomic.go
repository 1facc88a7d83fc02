// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// errSeveral refuses what only partitions without other replicas can do at once.
var errSeveral = errors.New("several partitions cannot be written as one")

// WriteAtomic is WriteAll over several replicas of the host, which have no other members.
func (h *Host) WriteAtomic(ctx context.Context, parts []Part, done command.Completion) error {
	if len(parts) == 1 && parts[0].Updates == nil {
		return parts[0].Replica.Write(ctx, parts[0].Mutation, done)
	}
	if !slices.ContainsFunc(parts, func(p Part) bool { return p.Replica != parts[0].Replica }) {
		return parts[0].Replica.WriteAll(ctx, parts, done)
	}
	c, ok := h.seqs.(*committer)
	if !ok {
		return errSeveral
	}
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
	latches, err := h.latchSeveral(ctx, parts)
	if err == nil {
		err = h.launchSeveral(ctx, c, parts, latches, done)
	}
	if err != nil {
		for _, g := range latches {
			h.latches.leave(g)
		}
	}
	return err
}

// latchSeveral takes the latches of all parts in ascending order of stripes, one per stripe.
func (h *Host) latchSeveral(ctx context.Context, parts []Part) ([]guard, error) {
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

func (h *Host) launchSeveral(ctx context.Context, c *committer, parts []Part, latches []guard, done command.Completion) error {
	stamp := h.micros()
	ms := make([]*command.Mutation, 0, len(parts))
	for i := range parts {
		r := parts[i].Replica
		if err := r.landed(ctx, parts[i:i+1]); err != nil {
			return err
		}
		resolved, err := r.resolveAll(ctx, parts[i:i+1])
		if err != nil {
			return err
		}
		if err := r.admits(resolved[0]); err != nil {
			return err
		}
		ms = append(ms, resolved[0])
		stamp = max(stamp, r.stamps.last.Load()+1)
	}
	for _, l := range latches {
		l.keepKey()
	}
	w := &several{held: held{replica: parts[0].Replica, guards: latches, then: func(o raftgroup.Outcome) { done.Done(o.Err) }}}
	w.left.Store(int64(len(parts)))
	ps := make([]proposal, 0, len(parts))
	for i := range parts {
		r := parts[i].Replica
		r.stamps.observe(stamp)
		ps = append(ps, proposal{replica: r, entry: command.AddWrite(command.BeginWrite(nil, r.epoch(), 1, nil), ms[i], stamp), waiter: w})
	}
	if err := c.propose(ps...); err != nil {
		return err
	}
	for i := range parts {
		parts[i].Replica.count.wrote(ru.Write(ms[i]))
	}
	return nil
}

// several is a waiter that is told once for each of its entries.
type several struct {
	held
	left atomic.Int64
}

// Done implements raftgroup.Waiter.
func (w *several) Done(o raftgroup.Outcome) {
	if w.left.Add(-1) == 0 {
		w.held.Done(o)
	}
}

// TruncateTable truncates several replicas.
func (h *Host) TruncateTable(ctx context.Context, replicas []*Replica, indexes []uint32, done command.Completion) error {
	all := make(signal, len(replicas))
	for i, r := range replicas {
		if err := r.Truncate(ctx, indexes, all); err != nil {
			for range i {
				<-all
			}
			return err
		}
	}
	go func() {
		var err error
		for range replicas {
			err = errors.Join(err, <-all)
		}
		done.Done(err)
	}()
	return nil
}

// RequireSchema is Require for callers that wait as long as it takes.
func (r *Replica) RequireSchema(revision uint64) { _ = r.Require(context.Background(), revision) }
