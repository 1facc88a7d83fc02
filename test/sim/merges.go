// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// mergesMax is the maximum number of merges that are requested in a run.
const mergesMax = 10

// mergeSomething requests merges from time to time until the calm phase begins. The requesting node may be cut off.
func (w *simulation) mergeSomething() {
	if w.Calm || w.counts.Merges >= mergesMax {
		return
	}
	w.After(w.Between(300*time.Millisecond, 3*time.Second), w.mergeSomething)
	if n := w.nodes[w.Rand.IntN(nodeCount)]; n.Host != nil && n.keeper != nil {
		n.Spawn(n.orderMerge)
	}
}

// orderMerge requests the merge of two neighbors, as an operator who skips the idle period would. It prefers neighbors
// on the same nodes; the replicas of other neighbors are first moved together.
func (n *node) orderMerge(*simenv.Task) {
	w := n.w
	var order merge.Request
	gathering := false
	err := n.update(func(s *meta.State) (*meta.State, error) {
		var ready, apart []*topology.Partition
		for _, table := range s.Topology.Tables() {
			ps := s.Topology.Partitions(table)
			for i := range max(len(ps)-1, 0) {
				switch {
				case table == w.batches.Table() || w.ofItself(table):
				case placement.Colocated(ps[i], ps[i+1]):
					ready = append(ready, ps[i])
				default:
					apart = append(apart, ps[i])
				}
			}
		}
		if len(ready) == 0 || w.OneIn(8) {
			ready = apart
		}
		if order = (merge.Request{}); len(ready) == 0 {
			return s, nil
		}
		p := ready[w.Rand.IntN(len(ready))]
		right := s.Topology.Partitions(p.Table)[s.Topology.Find(p.Table, p.Span.Limit)]
		order = merge.Request{Table: p.Table, First: right.ID, Second: p.ID, SkipCooldown: true,
			Cause: topology.ByOperator}
		next, apartYet, err := order.Apply(s, n.Wall())
		gathering = apartYet
		return next, err
	})
	w.Note("node %d: merge of partitions %d and %d: %v, %v", n.ID, order.Second, order.First, gathering, err)
	if err == nil && order.First != 0 && !gathering {
		w.counts.Merges++
		w.cancelSoon(order.Table, order.First)
	}
}
