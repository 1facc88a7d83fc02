// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/replica/partition"
)

// rounds looks again and again for hints that nobody is following: those of writes that were not awaited, whose view
// had no quorum, or whose leader has changed.
func (k *Keeper) rounds(ctx context.Context) {
	for {
		timer := time.NewTimer(roundEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		k.Round(ctx, lateAfter)
	}
}

// Round follows all hints of partitions that this node leads that are older than late.
func (k *Keeper) Round(ctx context.Context, late time.Duration) {
	views := k.views()
	if len(views.byTable) == 0 {
		return
	}
	for _, r := range k.o.Replicas() {
		for _, v := range views.byTable[r.Table()] {
			if !r.Leading() || ctx.Err() != nil {
				break
			}
			k.catchUp(ctx, r, v, k.o.Now().Add(-late).UnixMicro())
		}
	}
}

// catchUp follows what is due in a partition for a view since before a stamp. What fails is left to the next round.
func (k *Keeper) catchUp(ctx context.Context, r *partition.Replica, v *View, before int64) {
	var from []byte
	for more := true; more && ctx.Err() == nil; {
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
		if err == nil {
			err = k.catchUpWith(ctx, r, hints)
		}
		if err != nil {
			k.failed(len(hints), err)
			return
		}
	}
}

func (k *Keeper) catchUpWith(ctx context.Context, r *partition.Replica, hints [][]byte) error {
	rows, ranges, err := k.sort(r, hints)
	if err != nil {
		return err
	}
	for i := range ranges {
		if err := k.followRange(ctx, r, &ranges[i]); err != nil {
			return err
		}
	}
	d := &delivery{keeper: k, replica: r}
	for i := range rows {
		if err := k.image(ctx, d, &rows[i], true); err != nil {
			return err
		}
	}
	return k.deliver(ctx, d)
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
