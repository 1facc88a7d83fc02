// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/sim/world"
)

// Steps count what happens while a partition is at a step of a split, a merge or a move.
type Steps struct {
	// SplitOrdered: no replica has split; SplitApplied: one has, or has taken the order back, and the map does not know
	// it. SplitRecalled: the order is taken back, and no replica has done either.
	SplitOrdered, SplitApplied, SplitRecalled int
	// MergeOrdered: nothing is frozen. MergeFrozen: a replica of the right partition is; MergeReady: and the map knows
	// of one. MergeDecided: all are, and no replica of the left one has merged; MergeApplied: one has. MergeThawing: it
	// is taken back.
	MergeOrdered, MergeFrozen, MergeReady, MergeDecided, MergeApplied, MergeThawing int
	// MoveJoining: a replica is on its way in, MoveJoint: the old and the new members decide together, MoveLeaving: one
	// is on its way out, and the others are there.
	MoveJoining, MoveJoint, MoveLeaving int
}

// each calls f with all of them, and how they are called.
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

// at is the counter of the step that a partition of the newest map is at, nil if nothing happens to it, or the other
// partition of its merge has the step.
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

// furthest is the highest epoch at which a replica of a partition is, and whether one is frozen.
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

// stepsOf counts the steps at which partitions are that a node has a replica of.
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

// strikes is what is done to nodes just when a partition has come to another step.
type strikes struct {
	dice *rand.Rand
	// seen is the step of each partition that is at one.
	seen map[topology.PartitionID]string
	n    int
}

// strikesMax bounds them in a run, but for those at splits that are taken back, which are few: nothing would come to
// its end.
const strikesMax = 8

// watchSteps is called when a node has applied something, and when there are new records.
func (w *simulation) watchSteps() {
	if !w.plan.With.Strikes || w.Calm {
		return
	}
	s := &w.strikes
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
		odd := 3 // of one strike in as many
		if p.Merge == nil {
			odd = 8
		}
		if p.Split != nil && p.Split.Canceled {
			odd = 1 // few are
		}
		if p.Merge == nil && p.Split == nil {
			odd = 40 // there is always a replica on its way
		}
		steps.each(func(name string, n *int) {
			if *n > 0 {
				now[p.ID] = name
			}
		})
		if w.plan.Bugs.RightByMap { // it shows where the first node that has merged crashes, and the map does not know
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
		if !recalled && s.n >= strikesMax || s.dice.IntN(odds[i]) > 0 {
			continue
		}
		if !recalled {
			s.n++
		}
		w.strike(p, now[p.ID])
	}
}

// crashes is none of the rarer strikes.
const crashes = 8

// strike does something to a node that has a replica of a partition, or to its table, now or soon.
func (w *simulation) strike(p *topology.Partition, step string) {
	dice := w.strikes.dice
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
		what, soon = crashes, 1
	}
	if by := w.nodes[dice.IntN(nodeCount)]; p.Split != nil && !p.Split.Canceled && by != n && by.keeper != nil &&
		dice.IntN(2) == 0 {
		by.cancel(p.Table, p.ID) // in time, as a rule, where the leader is struck
	}
	if n == nil || n.Host == nil || w.spares(n) {
		return
	}
	n.AfterLife(soon, func() {
		w.Note("node %d is struck: partition %d is among the %s", n.ID, p.ID, step)
		switch weather := w.Weather(n.Machine, n.crash, n.restart); {
		case w.Calm || n.Host == nil:
		case what == 0:
			weather[1]() // it is cut off
		case what == 1:
			weather[2]() // it pauses
		case what == 2 && w.quietOtherwise():
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

// changeAmid truncates a table, drops it, or has an index of it built or dropped.
func (w *simulation) changeAmid(n *node, id uint32) {
	c := []change{createIndex, createIndex, dropIndex, dropTable, dropTable}[w.strikes.dice.IntN(5)]
	truncate := w.strikes.dice.IntN(3) == 0
	n.Spawn(func(t *world.Task) {
		w.counts.ChangedAmid++
		cl := &client{w: w, n: n, t: t, id: 500, last: map[string]uint64{}}
		var table *schema.Table
		if n.cat != nil {
			table = n.cat.Snapshot().TableByID(id)
		}
		switch {
		case id == wipedTable:
			cl.carryOut(&op{client: cl.id, kind: opTruncate, key: wiped[0], called: w.Now})
		case table == nil || table.Keyspace != keyspace:
		case truncate:
			cl.truncateTable(table)
		default:
			n.changeTable(t, table.Name, c)
		}
	})
}
