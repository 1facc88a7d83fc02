// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// rounds looks again and again for hints that nobody is following: those of writes that were not awaited, whose view
// had no quorum, or whose leader has changed.
func (k *Keeper) rounds(ctx context.Context) {
	for k.o.Sched.Sleep(ctx, roundEvery) == nil {
		k.Round(ctx, lateAfter)
	}
}

// roundsAtOnce is how many views of partitions a round looks at at a time: one that cannot be written to holds up no
// other.
const (
	roundsAtOnce = 4
	// rangesAtOnce is how many ranges of a view are followed at a time.
	rangesAtOnce = 8
)

// Round follows all hints of partitions that this node leads that are older than late.
func (k *Keeper) Round(ctx context.Context, late time.Duration) {
	views := k.views()
	if len(views.byTable) == 0 {
		return
	}
	type part struct {
		replica *partition.Replica
		view    *View
	}
	var parts []part
	for _, r := range k.o.Replicas() {
		for _, v := range views.byTable[r.Table()] {
			if r.Leading() {
				parts = append(parts, part{r, v})
			}
		}
	}
	before := k.o.Now().Add(-late).UnixMicro()
	k.atOnce(roundsAtOnce, len(parts), func(i int) { k.catchUp(ctx, parts[i].replica, parts[i].view, before) })
}

// atOnce does n things, so many at a time.
func (k *Keeper) atOnce(most, n int, do func(i int)) {
	var next atomic.Int64
	all := sched.Group{Scheduler: k.o.Sched}
	for range min(most, n) {
		all.Go(func() {
			for i := next.Add(1) - 1; int(i) < n; i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	all.Wait()
}

// catchUp follows what is due in a partition for a view since before a stamp. What fails is left to the next round, and
// holds up nothing else.
func (k *Keeper) catchUp(ctx context.Context, r *partition.Replica, v *View, before int64) {
	var from []byte
	for more := true; more && ctx.Err() == nil && r.Leading(); {
		more = false
		var hints [][]byte
		err := r.Due(v.Index, from, func(key []byte, stamp int64) bool {
			if stamp > before {
				return true
			}
			if more = len(hints) == chunkRows; more {
				from = bytes.Clone(key)
				return false
			}
			hints = append(hints, bytes.Clone(key))
			return true
		})
		if err != nil {
			k.failed(len(hints), err)
			return // what cannot be read ends the node
		}
		k.catchUpWith(ctx, r, hints)
	}
}

// catchUpWith follows some hints: ranges one by one, and all rows at once. Where that fails each row is followed by
// itself, so that those go whose part of the view can be written to.
func (k *Keeper) catchUpWith(ctx context.Context, r *partition.Replica, hints [][]byte) {
	rows, ranges, err := k.sort(r, hints, 0)
	if err != nil {
		k.failed(len(hints)-len(rows)-len(ranges), err)
	}
	k.atOnce(rangesAtOnce, len(ranges), func(i int) {
		if err := k.followRange(ctx, r, &ranges[i]); err != nil {
			k.failed(1, err)
		}
	})
	d := &delivery{keeper: k, replica: r}
	for i := range rows {
		if err = k.image(ctx, d, &rows[i], true); err != nil {
			k.each(ctx, r, rows)
			return
		}
	}
	if err := k.deliver(ctx, d); err != nil && len(rows) > 1 {
		k.each(ctx, r, rows)
	}
}

// each follows rows, each by itself.
func (k *Keeper) each(ctx context.Context, r *partition.Replica, rows []wanted) {
	told := make(chan error, len(rows))
	sent := 0
	for i := range rows {
		d := &delivery{keeper: k, replica: r, told: told}
		if err := k.image(ctx, d, &rows[i], true); err != nil {
			k.failed(1, err)
			continue
		}
		k.send(ctx, d)
		sent++
	}
	for range sent {
		if errors.Is(k.answer(told), sched.ErrEnded) {
			return
		}
	}
}

// Lag is how far a view is behind, of the partitions that this node leads.
type Lag struct {
	View *View
	// Due is the number of hints, Oldest the stamp of the oldest one in microseconds, 0 if there is none. At lagMax
	// hints counting ends.
	Due    int
	Oldest int64
}

// lagMax bounds how many hints are counted for each view.
const lagMax = 100_000

// Lags are how far the views are behind, by the index of hints. They take a walk over all hints.
func (k *Keeper) Lags() map[uint32]*Lag {
	views := k.views()
	out := map[uint32]*Lag{}
	for _, r := range k.o.Replicas() {
		for _, v := range views.byTable[r.Table()] {
			l := out[v.Index]
			if l == nil {
				l = &Lag{View: v}
				out[v.Index] = l
			}
			if !r.Leading() {
				continue
			}
			_ = r.Due(v.Index, nil, func(_ []byte, stamp int64) bool { // what cannot be read ends the node
				l.Due++
				if l.Oldest == 0 || stamp < l.Oldest {
					l.Oldest = stamp
				}
				return l.Due < lagMax
			})
		}
	}
	return out
}
