// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// startChaos draws faults until the world is calm.
func (w *world) startChaos() {
	var next func()
	next = func() {
		if w.calm {
			return
		}
		w.fault()
		w.after(w.between(150*time.Millisecond, 1200*time.Millisecond), next)
	}
	w.after(2*time.Second, next)
	w.after(3*time.Second, w.housekeeping)
}

// housekeeping is what nobody notices: sweeps.
func (w *world) housekeeping() {
	if w.finished {
		return
	}
	w.after(w.between(300*time.Millisecond, 1500*time.Millisecond), w.housekeeping)
	for _, n := range w.nodes {
		if n.host != nil && n.paused <= w.now {
			n.sweep()
		}
	}
}

// fault does something to a node; half of the time one that leads.
func (w *world) fault() {
	n := w.nodes[w.rng.IntN(nodeCount)]
	if ids := partitions(w.born); w.oneIn(2) {
		if leader := w.leaderOf(ids[w.rng.IntN(len(ids))]); leader != nil {
			n = leader
		}
	}
	if n.host == nil {
		return
	}
	switch w.rng.IntN(13) {
	case 0, 1, 2:
		n.crash()
		w.after(w.between(50*time.Millisecond, 3*time.Second), n.restart)
	case 3, 4, 5:
		w.counts.Cuts++
		w.note("node %d is cut off", n.id)
		w.net.cut(n.id)
		w.after(w.between(300*time.Millisecond, 4*time.Second), func() { w.net.join(n.id) })
	case 6:
		w.counts.Pauses++
		n.paused = w.now + w.between(100*time.Millisecond, 3*time.Second)
		w.note("node %d pauses until %v", n.id, n.paused)
	case 7:
		w.counts.SlowDisks++
		w.note("node %d has a slow disk", n.id)
		n.slow = 10 + w.rng.IntN(60)
		w.net.slow[n.id] = w.oneIn(2)
		w.after(w.between(time.Second, 3*time.Second), func() { n.slow, w.net.slow[n.id] = 1, false })
	case 8:
		w.counts.FullDisks++
		w.note("node %d has a full disk", n.id)
		n.full = true
		n.afterLife(w.between(time.Second, 2*time.Second), func() { n.full = false })
	case 9:
		w.wipe(n)
	case 10, 11:
		if leader := w.leaderOf(topology.MetaPartition); leader != nil {
			w.counts.Asked++
			w.spawn(leader, leader.moveSomething)
		}
	default:
		w.transfer(n)
	}
}

// wipe takes a disk away: what comes back on the machine is a new node. There is one at a time, and only when all replica sets are whole.
func (w *world) wipe(n *node) {
	leader := w.leaderOf(topology.MetaPartition)
	if leader == nil || !leader.whole() {
		return
	}
	for _, other := range w.nodes {
		if other.host == nil {
			return
		}
	}
	w.counts.Wipes++
	if gone := n.self(); w.oneIn(2) {
		w.after(w.between(time.Second, 5*time.Second), func() {
			if leader := w.leaderOf(topology.MetaPartition); leader != nil {
				w.spawn(leader, func(t *task) { leader.giveUp(t, gone) })
			}
		})
	}
	n.crash()
	n.wipes++
	n.fs = vfs.NewCrashableMem()
	w.note("node %d has lost its disk", n.id)
	w.after(w.between(100*time.Millisecond, 4*time.Second), n.restart)
}

// transfer makes a leader hand over, sometimes to somebody who cannot hear.
func (w *world) transfer(n *node) {
	if w.oneIn(3) {
		w.counts.Transfers++
		n.stop()
		return
	}
	for _, g := range n.host.Groups() {
		group := g.ID()
		s, ok := n.host.Status(group)
		if !ok || !s.Leading {
			continue
		}
		voters := s.Members.GetVoters()
		to := voters[w.rng.IntN(len(voters))]
		w.counts.Transfers++
		n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) {
			if err := h.Transfer(group, to); err == nil {
				w.note("node %d hands partition %d to replica %d", n.id, group, to)
			}
		})
		n.kick()
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.calm = true
	w.note("calm")
	for _, n := range w.nodes {
		w.net.join(n.id)
		w.net.slow[n.id] = false
		n.slow, n.full, n.paused = 1, false, 0
		w.after(100*time.Millisecond, n.restart)
	}
}
