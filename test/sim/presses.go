// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/test/sim/world"
)

const (
	// pressesMax bounds the presses of a run: each key is written a few dozen times more.
	pressesMax = 3
	// pressFor is for how long a merge is followed, and pressAfter for how long its keys are written afterwards.
	pressFor, pressAfter = 4 * time.Second, 700 * time.Millisecond
	// pressSkew is how far clocks are moved: with what they are off by anyway they stay within what nodes tolerate.
	pressSkew = 500 * time.Millisecond
)

// press has a partition that is about to become a part of another one written to where it hurts. A node whose clock is
// ahead writes to it until it is frozen, and does not hear what becomes of the last writes: it sends them again when
// the other partition has them. One whose clock is behind writes after the merge: its stamps must be above those of the
// first.
type press struct {
	w           *simulation
	dice        *rand.Rand
	left, right topology.PartitionID
	keys        []string
	first, then *node
	until       time.Duration
}

// pressMerges begins to press merges that are new in the newest map.
func (w *simulation) pressMerges() {
	if !w.plan.With.Presses || w.Calm {
		return
	}
	for p := range w.newest().Topology.InMotion() {
		at := spanAt{p.ID, p.Epoch}
		if p.Merge == nil || p.Merge.Right != p.ID || w.pressed[at] || len(w.pressed) >= pressesMax {
			continue
		}
		w.pressed[at] = true
		dice := w.growDice(1<<41 + uint64(w.Now))
		s := &press{w: w, dice: dice, left: p.Merge.Left, right: p.ID, until: w.Now + pressFor}
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

// choose chooses the nodes: the first one has no replica of the partition if there is such a node, the other one leads
// what is left.
func (s *press) choose(p *topology.Partition) bool {
	up := func(n *node) bool { return n != nil && n.Host != nil && n.keeper != nil }
	for _, i := range s.dice.Perm(nodeCount) {
		if n := s.w.nodes[i]; up(n) && (s.first == nil || p.Sets[0].On(n.self()) == nil) {
			s.first = n
		}
	}
	s.then = s.w.leaderOf(s.left)
	return up(s.first) && up(s.then) && s.first != s.then
}

func (s *press) begin() {
	w := s.w
	w.counts.Presses++
	w.Note("node %d writes to partition %d until it is merged, and node %d later", s.first.ID, s.right, s.then.ID)
	if w.plan.With.Jumps && s.first.Wall().After(s.then.Wall().Add(-pressSkew)) {
		undo, undoThen := s.first.SetWrong(pressSkew), s.then.SetWrong(-pressSkew)
		w.After(pressFor+pressAfter, func() {
			undo()
			undoThen()
		})
	}
	for i := range 3 {
		s.write(s.first, 600+i, func() bool { return s.joining() && !s.frozen() })
	}
	s.deafen()
	merged := func() bool { return !s.joining() }
	s.then.Spawn(func(t *world.Task) {
		if t.Wait(merged, pressFor) == nil {
			s.until = w.Now + pressAfter
			s.write(s.then, 610, func() bool { return true })
		}
	})
}

// joining reports whether the merge is under way, frozen whether the right partition takes nothing any more.
func (s *press) joining() bool {
	p := s.w.newest().Topology.Partition(s.right)
	return p != nil && p.Merge != nil
}

func (s *press) frozen() bool { _, frozen := s.w.furthest(s.right); return frozen }

// write writes and reads the keys at a node as long as that is wanted.
func (s *press) write(n *node, id int, wanted func() bool) {
	w := s.w
	n.Spawn(func(t *world.Task) {
		c := &client{w: w, n: n, t: t, id: id, last: map[string]uint64{}}
		pause := func() time.Duration { return time.Duration(1 + s.dice.Int64N(int64(30*time.Millisecond))) }
		for w.Now < s.until && !w.Calm && wanted() && t.Sleep(pause()) {
			o := &op{client: c.id, kind: opWrite, key: s.keys[s.dice.IntN(len(s.keys))], called: w.Now}
			if o.value = w.hist.newValue(); s.dice.IntN(4) == 0 {
				o.kind, o.value = opRead, 0
			}
			c.carryOut(o)
		}
	})
}

// deafen keeps the first node from hearing the right partition's leader from now until a moment after the freeze: its
// writes arrive.
func (s *press) deafen() {
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
