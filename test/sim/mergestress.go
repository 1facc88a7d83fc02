// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

const (
	// stressedMergesMax is the maximum number of stressed merges in a run. Each stressed merge writes every key a few
	// dozen times.
	stressedMergesMax = 3
	// stressFor is the time during which a merge is stressed. stressAfter is the time during which its keys are written
	// after the merge.
	stressFor, stressAfter = 4 * time.Second, 700 * time.Millisecond
	// stressSkew is the clock offset. Together with the drift, the offset stays within the limit that nodes tolerate.
	stressSkew = 500 * time.Millisecond
)

// mergeStress stresses the merge of a partition with critical writes. A node whose clock is ahead writes to the
// partition until the partition is frozen. The node does not receive the outcomes of the last writes. The node repeats
// these writes after the other partition has taken over the rows. A second node, whose clock is behind, writes after
// the merge. Its timestamps must exceed the timestamps of the first node.
type mergeStress struct {
	w           *simulation
	dice        *rand.Rand
	left, right topology.PartitionID
	keys        []string
	first, then *node
	until       time.Duration
}

// stressMerges starts to stress merges that are new in the newest map.
func (w *simulation) stressMerges() {
	if !w.plan.With.MergeStress || w.Calm {
		return
	}
	for p := range w.newest().Topology.InMotion() {
		at := spanAt{p.ID, p.Epoch}
		if p.Merge == nil || p.Merge.Right != p.ID || w.stressedMerges[at] ||
			len(w.stressedMerges) >= stressedMergesMax {
			continue
		}
		w.stressedMerges[at] = true
		dice := w.growDice(1<<41 + uint64(w.Now))
		s := &mergeStress{w: w, dice: dice, left: p.Merge.Left, right: p.ID, until: w.Now + stressFor}
		for _, key := range registers {
			if tableOf(key) == p.Table && p.Span.Tokens().Contains(token.Hash([]byte(key))) {
				s.keys = append(s.keys, key)
			}
		}
		if s.choose(p) && len(s.keys) > 0 {
			s.begin()
		}
	}
}

// choose chooses the two nodes. The first node preferably has no replica of the partition; the second node leads the
// left partition.
func (s *mergeStress) choose(p *topology.Partition) bool {
	up := func(n *node) bool { return n != nil && n.Host != nil && n.keeper != nil }
	for _, i := range s.dice.Perm(nodeCount) {
		if n := s.w.nodes[i]; up(n) && (s.first == nil || p.Sets[0].On(n.self()) == nil) {
			s.first = n
		}
	}
	s.then = s.w.leaderOf(s.left)
	return up(s.first) && up(s.then) && s.first != s.then
}

func (s *mergeStress) begin() {
	w := s.w
	w.counts.MergeStress++
	w.Note("node %d writes to partition %d until it is merged, and node %d later", s.first.ID, s.right, s.then.ID)
	if w.plan.With.Jumps && s.first.Wall().After(s.then.Wall().Add(-stressSkew)) {
		undo, undoThen := s.first.SetWrong(stressSkew), s.then.SetWrong(-stressSkew)
		w.After(stressFor+stressAfter, func() {
			undo()
			undoThen()
		})
	}
	for i := range 3 {
		s.write(s.first, 600+i, func() bool { return s.joining() && !s.frozen() })
	}
	s.deafen()
	merged := func() bool { return !s.joining() }
	s.then.Spawn(func(t *simenv.Task) {
		if t.Wait(merged, stressFor) == nil {
			s.until = w.Now + stressAfter
			s.write(s.then, 610, func() bool { return true })
		}
	})
}

// joining reports whether the merge is in progress. frozen reports whether the right partition rejects requests.
func (s *mergeStress) joining() bool {
	p := s.w.newest().Topology.Partition(s.right)
	return p != nil && p.Merge != nil
}

func (s *mergeStress) frozen() bool { _, frozen := s.w.furthest(s.right); return frozen }

// write writes and reads the keys on a node while wanted returns true.
func (s *mergeStress) write(n *node, id int, wanted func() bool) {
	w := s.w
	n.Spawn(func(t *simenv.Task) {
		c := &client{w: w, n: n, t: t, id: id, last: map[string]uint64{}}
		pause := func() time.Duration { return time.Duration(1 + s.dice.Int64N(int64(30*time.Millisecond))) }
		for w.Now < s.until && !w.Calm && wanted() && t.Sleep(pause()) {
			o := &op{client: c.id, kind: opWrite, key: s.keys[s.dice.IntN(len(s.keys))], called: w.Now}
			if o.value = w.hist.newValue(); s.dice.IntN(4) == 0 {
				o.kind, o.value = opRead, 0
			}
			c.execute(o)
		}
	})
}

// deafen prevents the first node from receiving messages from the right partition's leader until shortly after the
// freeze. The node's writes still arrive.
func (s *mergeStress) deafen() {
	w := s.w
	leader := w.leaderOf(s.right)
	if leader == nil || leader == s.first || s.dice.IntN(3) == 0 {
		return
	}
	after := time.Duration(s.dice.Int64N(int64(40 * time.Millisecond)))
	w.After(after, func() {
		if w.Net.Parted(leader.ID, s.first.ID) || w.Calm {
			return
		}
		w.Note("node %d does not hear node %d", s.first.ID, leader.ID)
		undo := w.Net.Deafen(s.first.ID, leader.ID)
		var look func()
		look = func() {
			if s.joining() && !s.frozen() && w.Now < s.until && !w.Calm {
				w.After(5*time.Millisecond, look)
				return
			}
			undo()
		}
		look()
	})
}
