// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// cancelSoon cancels one in three requested splits and merges: immediately, during execution, or while the execution
// waits for a quorum.
func (w *simulation) cancelSoon(table uint32, id topology.PartitionID) {
	dice := w.growDice(1<<40 + uint64(w.Now))
	if dice.IntN(3) > 0 {
		return
	}
	within := 100 * time.Millisecond
	if dice.IntN(3) == 0 {
		within = 3 * time.Second
	}
	n := w.nodes[dice.IntN(nodeCount)]
	w.After(1+time.Duration(dice.Int64N(int64(within))), func() {
		if n.Host != nil && n.keeper != nil && !w.Calm {
			n.cancel(table, id)
		}
	})
}

// cancel cancels the pending request for a partition, as an operator would.
func (n *node) cancel(table uint32, id topology.PartitionID) {
	n.Spawn(func(*simenv.Task) {
		var what string
		err := n.update(func(s *meta.State) (next *meta.State, err error) {
			next, what, err = merge.Cancel(s, table, id)
			return next, err
		})
		n.w.Note("node %d: partition %d: %q is taken back, %v", n.ID, id, what, err)
	})
}

// ended returns the numbers of completed and canceled changes of a kind, according to the newest metadata.
func (w *simulation) ended(kind meta.EventKind) (done, recalled int) {
	for _, e := range w.newest().History {
		switch {
		case e.Kind != kind:
		case e.Abandoned:
			recalled++
		default:
			done++
		}
	}
	return done, recalled
}
