// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// Steps counts events by the step of a split, a merge, or a move that a partition has reached.
type Steps struct {
	// In step SplitOrdered, no replica has split. In step SplitApplied, a replica has split or has applied a
	// cancellation, but the partition map does not show the result yet. In step SplitRecalled, the split is canceled,
	// and no replica has split or applied the cancellation.
	SplitOrdered, SplitApplied, SplitRecalled int
	// In step MergeOrdered, no replica is frozen. In step MergeFrozen, a replica of the right partition is frozen. In
	// step MergeReady, the partition map also shows a frozen replica. In step MergeDecided, all replicas are frozen,
	// and no replica of the left partition has merged. In step MergeApplied, a replica has merged. In step
	// MergeThawing, the merge is being canceled.
	MergeOrdered, MergeFrozen, MergeReady, MergeDecided, MergeApplied, MergeThawing int
	// In step MoveJoining, a new replica is being added. In step MoveJoint, the Raft group has a joint configuration.
	// In step MoveLeaving, the new replicas exist, and an old replica is being removed.
	MoveJoining, MoveJoint, MoveLeaving int
}

// each calls f with the name and the address of each counter.
func (s *Steps) each(f func(name string, n *int)) {
	for _, e := range []struct {
		name string
		n    *int
	}{
		{"ordered splits", &s.SplitOrdered}, {"splits that the map does not know", &s.SplitApplied},
		{"splits that are taken back", &s.SplitRecalled},
		{"ordered merges", &s.MergeOrdered}, {"frozen partitions", &s.MergeFrozen}, {"ready replicas", &s.MergeReady},
		{"merges that are decided", &s.MergeDecided}, {"merges that the map does not know", &s.MergeApplied},
		{"merges that are taken back", &s.MergeThawing}, {"replicas on their way in", &s.MoveJoining},
		{"joint members", &s.MoveJoint}, {"replicas on their way out", &s.MoveLeaving},
	} {
		f(e.name, e.n)
	}
}

// at returns the counter of the step that a partition of the newest map has reached. at returns nil if the partition
// is not changing, or if the step is counted for the other partition of the merge.
func (s *Steps) at(w *simulation, p *topology.Partition) *int {
	epoch, frozen := w.furthest(p.ID)
	switch {
	case p.Split != nil && epoch > p.Epoch:
		return &s.SplitApplied
	case p.Split != nil && p.Split.Canceled:
		return &s.SplitRecalled
	case p.Split != nil:
		return &s.SplitOrdered
	case p.Merge != nil && p.Merge.Left == p.ID:
		if p.Merge.Stage == topology.Merging && epoch > p.Epoch {
			return &s.MergeApplied
		}
		return nil
	case p.Merge != nil && p.Merge.Stage == topology.Merging:
		return &s.MergeDecided
	case p.Merge != nil && p.Merge.Stage == topology.Unfreezing:
		return &s.MergeThawing
	case p.Merge != nil && len(p.Merge.Ready) > 0:
		return &s.MergeReady
	case p.Merge != nil && frozen:
		return &s.MergeFrozen
	case p.Merge != nil:
		return &s.MergeOrdered
	case p.AtRest():
		return nil
	}
	if leader := w.leaderOf(p.ID); leader != nil {
		if now, ok := leader.Host.Status(uint64(p.ID)); ok && len(now.Members.GetVotersOutgoing()) > 0 {
			return &s.MoveJoint
		}
	}
	if p.Sets[0].Count(topology.Joining) > 0 {
		return &s.MoveJoining
	}
	return &s.MoveLeaving
}

// furthest returns the highest epoch among a partition's replicas, and reports whether a replica is frozen.
func (w *simulation) furthest(id topology.PartitionID) (epoch uint64, frozen bool) {
	for _, n := range w.nodes {
		if n.parts == nil {
			continue
		}
		if r := n.parts.Replica(id); r != nil {
			_, e := r.Span()
			epoch, frozen = max(epoch, e), frozen || r.Frozen() != 0
		}
	}
	return epoch, frozen
}

// stepsOf counts the steps of all partitions of which a node has a replica.
func (w *simulation) stepsOf(n *node, to *Steps) {
	m := w.newest().Topology
	for p := range m.InMotion() {
		if p.ID == topology.MetaPartition || p.Sets[0].On(n.self()) == nil {
			continue
		}
		if at := to.at(w, p); at != nil {
			*at++
		}
	}
}

// stepFaults holds the state of the faults that are injected when a partition reaches another step.
type stepFaults struct {
	dice *rand.Rand
	// seen holds the step of each partition that is at a step.
	seen map[topology.PartitionID]string
	n    int
}

// stepFaultsMax is the maximum number of step faults in a run. More faults would prevent progress. The rare faults
// during canceled splits do not count.
const stepFaultsMax = 8

// watchSteps injects faults if a partition has reached another step. watchSteps must be called when a node has applied
// an entry or has received new metadata.
func (w *simulation) watchSteps() {
	if !w.plan.With.StepFaults || w.Calm {
		return
	}
	s := &w.stepFaults
	if s.dice == nil {
		s.dice, s.seen = rand.New(rand.NewPCG(w.plan.Seed, 0x5717)), map[topology.PartitionID]string{}
	}
	now := map[topology.PartitionID]string{}
	var news []*topology.Partition
	var odds []int
	for p := range w.newest().Topology.InMotion() {
		var steps Steps
		if p.ID == topology.MetaPartition || steps.at(w, p) == nil {
			continue
		}
		*steps.at(w, p) = 1
		odd := 3 // inject a fault at one in odd steps
		if p.Merge == nil {
			odd = 8
		}
		if p.Split != nil && p.Split.Canceled {
			odd = 1 // inject a fault every time, because these steps are rare
		}
		if p.Merge == nil && p.Split == nil {
			odd = 40 // moves are frequent
		}
		steps.each(func(name string, n *int) {
			if *n > 0 {
				now[p.ID] = name
			}
		})
		// The bug occurs if the first node that has merged crashes before the partition map changes.
		if w.plan.Bugs.RightByMap {
			if odd = 1; steps.MergeApplied == 0 {
				continue
			}
		}
		if s.seen[p.ID] != now[p.ID] {
			news, odds = append(news, p), append(odds, odd)
		}
	}
	s.seen = now
	for i, p := range news {
		recalled := p.Split != nil && p.Split.Canceled
		if !recalled && s.n >= stepFaultsMax || s.dice.IntN(odds[i]) > 0 {
			continue
		}
		if !recalled {
			s.n++
		}
		w.injectStepFault(p, now[p.ID])
	}
}

// crashFault is the drawn number that makes injectStepFault crash the node. No other fault has this number.
const crashFault = 8

// injectStepFault injects a fault into a node that has a replica of a partition, or changes the partition's table. The
// fault occurs immediately or after a short delay.
func (w *simulation) injectStepFault(p *topology.Partition, step string) {
	dice := w.stepFaults.dice
	set := p.Sets[0].Replicas
	n := w.nodeOf(set[dice.IntN(len(set))].Node)
	if leader := w.leaderOf(p.ID); leader != nil && (dice.IntN(2) == 0 || w.plan.Bugs.RightByMap) {
		n = leader
	}
	soon := time.Duration(dice.Int64N(int64(20 * time.Millisecond)))
	if dice.IntN(2) == 0 {
		soon = 1
	}
	what := dice.IntN(9)
	if w.plan.Bugs.RightByMap {
		what, soon = crashFault, 1
	}
	if by := w.nodes[dice.IntN(nodeCount)]; p.Split != nil && !p.Split.Canceled && by != n && by.keeper != nil &&
		dice.IntN(2) == 0 {
		by.cancel(p.Table, p.ID) // the cancellation usually arrives in time if the node is the leader
	}
	if n == nil || n.Host == nil || w.spares(n) {
		return
	}
	n.AfterLife(soon, func() {
		w.Note("node %d is struck: partition %d is among the %s", n.ID, p.ID, step)
		switch weather := w.Weather(n.Machine, n.crash, n.restart); {
		case w.Calm || n.Host == nil:
		case what == 0:
			weather[1]() // partitions the node from the network
		case what == 1:
			weather[2]() // pauses the node
		case what == 2 && w.mayLoseDisk():
			w.wipe(n)
		case what == 3:
			w.changeAmid(n, p.Table)
		case what == 4:
			n.cancel(p.Table, p.ID)
		default:
			weather[0]()
		}
	})
}

// changeAmid truncates or drops a table, or creates or drops an index on the table.
func (w *simulation) changeAmid(n *node, id uint32) {
	c := []change{createIndex, createIndex, dropIndex, dropTable, dropTable}[w.stepFaults.dice.IntN(5)]
	truncate := w.stepFaults.dice.IntN(3) == 0
	n.Spawn(func(t *simenv.Task) {
		w.counts.ChangedAmid++
		cl := &client{w: w, n: n, t: t, id: 500, last: map[string]uint64{}}
		var table *schema.Table
		if n.cat != nil {
			table = n.cat.Snapshot().TableByID(id)
		}
		switch {
		case id == wipedTable:
			cl.execute(&op{client: cl.id, kind: opTruncate, key: wiped[0], called: w.Now})
		case table == nil || table.Keyspace != keyspace:
		case truncate:
			cl.truncateTable(table)
		default:
			n.changeTable(t, table.Name, c)
		}
	})
}
