// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// startChaos schedules random faults until the calm phase begins.
func (w *simulation) startChaos() {
	var next func()
	next = func() {
		if w.Calm {
			return
		}
		w.fault()
		w.After(w.Between(150*time.Millisecond, 1200*time.Millisecond), next)
	}
	w.After(2*time.Second, next)
	w.After(3*time.Second, w.housekeeping)
}

// housekeeping schedules sweeps. They must not affect the results of clients.
func (w *simulation) housekeeping() {
	if w.Now > w.plan.Length+12*time.Second {
		return
	}
	w.After(w.Between(300*time.Millisecond, 1500*time.Millisecond), w.housekeeping)
	for _, n := range w.nodes {
		if n.Host != nil && n.Paused <= w.Now {
			n.sweep()
			if w.OneIn(3) {
				n.sweepDedupe()
			}
			n.sweepItems()
			n.sweepFeeds()
		}
	}
}

// fault injects a fault into a node. It chooses a leader half of the time.
func (w *simulation) fault() {
	n := w.nodes[w.Rand.IntN(nodeCount)]
	if ids := partitions(w.born); w.OneIn(2) {
		if leader := w.leaderOf(ids[w.Rand.IntN(len(ids))]); leader != nil {
			n = leader
		}
	}
	if n.Host == nil || w.spares(n) {
		return
	}
	if hard := w.hard(n); len(hard) > 0 && w.OneIn(4) {
		hard[w.Rand.IntN(len(hard))]()
		return
	}
	weather := w.Weather(n.Machine, n.crash, n.restart)
	switch d := w.Rand.IntN(13); d {
	case 0, 1, 2:
		weather[0]()
	case 3, 4, 5:
		weather[1]()
	case 6, 7, 8:
		weather[d-4]()
	case 9:
		w.wipe(n)
	case 10, 11:
		if leader := w.leaderOf(topology.MetaPartition); leader != nil {
			w.counts.Asked++
			leader.Spawn(leader.moveSomething)
		}
	default:
		w.transfer(n)
	}
}

// hard returns the faults that the plan enables in addition to the usual ones.
func (w *simulation) hard(n *node) (out []func()) {
	h := w.plan.With
	if h.Jumps && n.state().Version > 0 { // a node that has never joined knows only its own clock
		out = append(out, n.Jump)
	}
	if h.Suspends {
		out = append(out, n.Suspend)
	}
	if h.Refusals {
		out = append(out, func() { w.refuse(n) })
	}
	if h.Lost {
		out = append(out, func() { w.whenDiskExpendable(n.lose) })
	}
	if h.RolledBack {
		out = append(out, func() { w.whenDiskExpendable(n.rollBack) })
	}
	if h.LongPauses {
		out = append(out, func() { n.Pause(3*time.Second, 14*time.Second) })
	}
	return out
}

// refuse makes a node, preferably the leader of a register, refuse connections. Clients send their requests to this
// node for the maximum duration of a lease.
func (w *simulation) refuse(n *node) {
	key := registers[w.Rand.IntN(len(registers))]
	p := w.born.Locate(tableOf(key), token.Hash([]byte(key)), []byte(key))
	if leader := w.leaderOf(p.ID); leader != nil {
		n, w.refused, w.hot, w.until = leader, leader, key, w.Now+elections*tick
	}
	w.Net.Reject(n.Machine, n.refuses(n.self()))
}

// wipe destroys a disk and starts the machine as a new node. It destroys only one disk at a time, and only if all
// replica sets are complete.
func (w *simulation) wipe(n *node) {
	if !w.mayLoseDisk() {
		return
	}
	w.counts.Wipes++
	n.crash()
	n.newDisk()
	w.After(w.Between(100*time.Millisecond, 4*time.Second), n.restart)
}

// transfer makes a leader transfer its leadership, sometimes to an unreachable node.
func (w *simulation) transfer(n *node) {
	if w.OneIn(3) {
		w.counts.Transfers++
		n.stop()
		return
	}
	for _, g := range n.Host.Groups() {
		group := g.ID()
		s, ok := n.Host.Status(group)
		if !ok || !s.Leading {
			continue
		}
		voters := s.Members.GetVoters()
		to := voters[w.Rand.IntN(len(voters))]
		w.counts.Transfers++
		n.Call(func(h *raftgroup.Host) {
			if err := h.Transfer(group, to); err == nil {
				w.Note("node %d hands partition %d to replica %d", n.ID, group, to)
			}
		})
	}
}

// wrongClock sets the clock of a healthy node to a wrong time while the other nodes are healthy. The node must soon
// lose all leaderships.
func (w *simulation) wrongClock() {
	if !w.plan.With.Jumps {
		return
	}
	n := w.leaderOf(w.born.Partitions(wipedTable)[0].ID)
	if n == nil || w.OneIn(2) {
		n = w.nodes[w.Rand.IntN(nodeCount)]
	}
	if n.state().Version == 0 {
		return
	}
	by := w.Between(3*time.Second, 3*time.Minute)
	if w.OneIn(2) {
		by = -by
	}
	undo := n.SetWrong(by)
	n.sweep()
	w.After(6*time.Second, func() {
		if !undo() {
			return
		}
		for _, r := range n.parts.Replicas() {
			if s, ok := n.Host.Status(uint64(r.ID())); ok && s.Leading && len(s.Members.GetVoters()) > 2 {
				w.Fail("node %d leads partition %d with a clock that is ahead by %v", n.ID, r.ID(), by)
			}
		}
	})
}

// heal ends all faults.
func (w *simulation) heal() { w.Heal(func(m *simenv.Machine) { w.nodes[m.ID].restart() }) }
