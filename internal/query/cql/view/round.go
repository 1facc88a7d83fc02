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

// rounds periodically processes hints that no worker is processing. Examples are hints of writes that were not awaited,
// writes whose view had no quorum, and writes whose leader has changed.
func (k *Keeper) rounds(ctx context.Context) {
	for k.o.Sched.Sleep(ctx, roundEvery) == nil {
		k.Round(ctx, lateAfter)
	}
}

// roundsAtOnce is the number of pairs of a view and a partition that a round processes concurrently. Because of the
// concurrency, an unwritable view does not delay other views.
const (
	roundsAtOnce = 4
	// rangesAtOnce is the number of ranges of a view that are processed concurrently.
	rangesAtOnce = 8
)

// Round processes all hints that are older than late in the partitions that this node leads.
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
	for _, r := range k.o.Host.Replicas() {
		for _, v := range views.byTable[r.Table()] {
			if r.Leading() {
				parts = append(parts, part{r, v})
			}
		}
	}
	before := k.o.Clock.Wall().Add(-late).UnixMicro()
	k.atOnce(roundsAtOnce, len(parts), func(i int) { k.catchUp(ctx, parts[i].replica, parts[i].view, before) })
}

// atOnce calls do with the numbers from 0 to n-1. Up to most calls run concurrently.
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

// catchUp processes all hints of a view in a partition that are older than a stamp. The next round retries failed
// hints. A failed hint does not affect other hints.
func (k *Keeper) catchUp(ctx context.Context, r *partition.Replica, v *View, before int64) {
	var from []byte
	for more := true; more && ctx.Err() == nil && r.Leading(); {
		more = false
		var hints [][]byte
		err := r.Hints().Due(v.Index, from, func(key []byte, stamp int64) bool {
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
			return // a read failure stops the node
		}
		k.catchUpWith(ctx, r, hints)
	}
}

// catchUpWith processes each range separately and all rows together. If the rows cannot be processed together, it
// processes each row separately, so that rows in writable parts of the view succeed.
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

// each processes each row separately.
func (k *Keeper) each(ctx context.Context, r *partition.Replica, rows []wanted) {
	result := make(chan error, len(rows))
	sent := 0
	for i := range rows {
		d := &delivery{keeper: k, replica: r, result: result}
		if err := k.image(ctx, d, &rows[i], true); err != nil {
			k.failed(1, err)
			continue
		}
		k.send(ctx, d)
		sent++
	}
	for range sent {
		if errors.Is(k.answer(result), sched.ErrEnded) {
			return
		}
	}
}

// Lag describes the lag of a view for the partitions that this node leads.
type Lag struct {
	View *View
	// Due is the number of hints, up to lagMax. Oldest is the stamp of the oldest hint in microseconds. If the view has
	// no hints, Oldest is 0.
	Due    int
	Oldest int64
}

// lagMax is the maximum number of hints that are counted for each view.
const lagMax = 100_000

// Lags returns the lags of the views by hint index. It scans all hints.
func (k *Keeper) Lags() map[uint32]*Lag {
	views := k.views()
	out := map[uint32]*Lag{}
	for _, r := range k.o.Host.Replicas() {
		for _, v := range views.byTable[r.Table()] {
			l := out[v.Index]
			if l == nil {
				l = &Lag{View: v}
				out[v.Index] = l
			}
			if !r.Leading() {
				continue
			}
			_ = r.Hints().Due(v.Index, nil, func(_ []byte, stamp int64) bool { // a read failure stops the node
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
