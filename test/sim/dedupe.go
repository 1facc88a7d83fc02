// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// A simulation lasts seconds, so dedupe records are kept for seconds.
const (
	dedupeReach = 3 * time.Second
	dedupeKept  = 8
)

// sweepDedupe makes the leaders on this node sweep old dedupe records, as storage.Sweeper does.
func (n *node) sweepDedupe() {
	n.Spawn(func(t *simenv.Task) {
		for _, r := range n.parts.Replicas() {
			if r.Leading() && r.Frozen() == 0 && !t.Dead() {
				n.sweepDedupeOf(t, r)
			}
		}
	})
}

func (n *node) sweepDedupeOf(t *simenv.Task, r *partition.Replica) {
	ctx, now := context.Background(), n.plantPast().Unix()
	g, err := n.store.FindGarbage(ctx, r.Extent().Span, nil, now, dedupeKept, 1000)
	if err != nil {
		return
	}
	sweeps := g.Sweeps
	g.Sweeps = nil
	for i := range sweeps { // rows are swept elsewhere
		if sweeps[i].Horizon == now-dedupeKept {
			g.Sweeps = append(g.Sweeps, sweeps[i])
		}
	}
	if len(g.Parts.Keys) > 0 {
		all, err := n.coord.RecordedBatches(ctx)
		if err != nil || t.Dead() {
			return
		}
		g.AddParts(func(batch [16]byte) bool { return all[batch] })
	}
	for i := range g.Sweeps {
		if r.Control().Sweep(&g.Sweeps[i], ending(func(*command.CASResult, error) {})) == nil {
			n.w.counts.DedupeSweeps += len(g.Sweeps[i].Keys)
		}
	}
}
