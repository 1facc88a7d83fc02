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
	// pressesMax is the maximum number of stressed merges in a run. Each stressed merge writes every key a few dozen
	// times.
	pressesMax = 3
	// pressFor is the time during which a merge is stressed. pressAfter is the time during which its keys are written
	// after the merge.
	pressFor, pressAfter = 4 * time.Second, 700 * time.Millisecond
	// pressSkew is the clock offset. Together with the drift it stays within the limit that nodes tolerate.
	pressSkew = 500 * time.Millisecond
)

// press stresses the merge of a partition with critical writes. A node whose clock is ahead writes to the partition
// until it is frozen and does not receive the outcomes of the last writes. It repeats these writes when the other
// partition has taken over the rows. A second node, whose clock is behind, writes after the merge; its timestamps must
// exceed the timestamps of the first node.
type press struct {
	w           *simulation
	dice        *rand.Rand
	left, right topology.PartitionID
	keys        []string
	first, then *node
	until       time.Duration
}

// pressMerges starts to stress merges that are new in the newest map.
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

// choose chooses the two nodes. The first node preferably has no replica of the partition; the second node leads the
// left partition.
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

// joining reports whether the merge is in progress. frozen reports whether the right partition rejects requests.
func (s *press) joining() bool {
	p := s.w.newest().Topology.Partition(s.right)
	return p != nil && p.Merge != nil
}

func (s *press) frozen() bool { _, frozen := s.w.furthest(s.right); return frozen }

// write writes and reads the keys on a node while wanted returns true.
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

// deafen prevents the first node from receiving messages of the right partition's leader from now until shortly after
// the freeze. The node's writes still arrive.
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
