// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"errors"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

// startChaos draws faults until the world is calm, and moves replicas about.
func (w *world) startChaos() {
	var next func()
	next = func() {
		if w.calm {
			return
		}
		w.fault()
		w.after(w.between(200*time.Millisecond, 1500*time.Millisecond), next)
	}
	w.after(2*time.Second, next)
	for group := uint64(1); group <= groupCount; group++ {
		m := &move{w: w, group: group}
		w.moves = append(w.moves, m)
		w.after(w.between(3*time.Second, 6*time.Second), m.step)
	}
}

// fault does something to a node; half of the time one that leads.
func (w *world) fault() {
	n := w.nodes[w.rng.IntN(nodeCount)]
	if w.oneIn(2) {
		if leader := w.leaderOf(1 + w.rng.Uint64N(groupCount)); leader != nil {
			n = leader
		}
	}
	if n.host == nil {
		return
	}
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		n.crash()
		w.after(w.between(50*time.Millisecond, 3*time.Second), n.restart)
	case 3, 4, 5:
		w.counts.Cuts++
		w.note("node %d is cut off", n.id)
		w.after(w.between(300*time.Millisecond, 4*time.Second), w.net.cut(n.id))
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
		w.counts.Resets++
		w.note("connections to node %d are refused though it lives", n.id)
		w.refuse(n)
		if w.oneIn(2) { // by a firewall that lets nothing through any more
			w.net.cut(n.id)
			w.after(w.between(300*time.Millisecond, 4*time.Second), func() { w.net.join(n.id) })
		}
	case 10:
		n.depart()
	default:
		w.transfer(n)
	}
}

// transfer makes a leader hand over, sometimes to somebody who cannot hear.
func (w *world) transfer(n *node) {
	if w.oneIn(3) {
		w.counts.Transfers++
		n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) { w.note("node %d hands everything over, %d groups", n.id, h.Handover()) })
		n.kick()
		return
	}
	for group := uint64(1); group <= groupCount; group++ {
		if n.leading(group) == nil {
			continue
		}
		s, _ := n.host.Status(group)
		voters := s.Members.GetVoters()
		to := voters[w.rng.IntN(len(voters))]
		w.counts.Transfers++
		n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) {
			if err := h.Transfer(group, to); err == nil {
				w.note("node %d hands group %d to replica %d", n.id, group, to)
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

// move replaces a member of a group: a learner on a node without one, a snapshot, then both changes in a joint
// configuration. Each step is taken again until its effect is seen, as a reconciler would, whatever crashes meanwhile.
type move struct {
	w     *world
	group uint64
	// in is the new replica, out the old one; zero between moves.
	in, out raftgroup.Member
}

func (m *move) step() {
	w := m.w
	if w.finished && m.in.Replica == 0 {
		return
	}
	w.after(w.between(100*time.Millisecond, 400*time.Millisecond), m.step)
	leader := w.leaderOf(m.group)
	if leader == nil {
		return
	}
	s, _ := leader.host.Status(m.group)
	if len(s.Members.GetVotersOutgoing()) > 0 {
		return
	}
	switch {
	case m.in.Replica == 0:
		if !w.calm && w.oneIn(6) {
			m.begin(s.Members)
		}
	case !contains(s.Members.GetVoters(), m.in.Replica) && !contains(s.Members.GetLearners(), m.in.Replica):
		if m.prepare() {
			m.change(leader, raftgroup.Change{Member: m.in, As: raftgroup.Learner})
		}
	case contains(s.Members.GetLearners(), m.in.Replica):
		for _, p := range s.Peers {
			if p.Replica == m.in.Replica && p.Active && p.Match > 0 && p.Lag < 50 {
				changes := []raftgroup.Change{{Member: m.in, As: raftgroup.Voter}}
				if m.out.Replica != 0 {
					changes = append(changes, raftgroup.Change{Member: m.out, As: raftgroup.Gone})
				}
				m.change(leader, changes...)
			}
		}
	default:
		m.finish()
	}
}

func contains(list []uint64, id uint64) bool {
	for _, v := range list {
		if v == id {
			return true
		}
	}
	return false
}

// begin chooses a member and a node without one.
func (m *move) begin(members *pb.ConfState) {
	w := m.w
	hosts := map[int]bool{}
	var old []raftgroup.Member
	for _, n := range w.nodes {
		if n.host == nil {
			return
		}
		if g := n.host.Group(m.group); g != nil {
			hosts[n.id] = true
			if contains(members.GetVoters(), g.Replica()) {
				old = append(old, raftgroup.Member{Replica: g.Replica(), Node: nodeID(n.id)})
			}
		}
	}
	for _, n := range w.nodes {
		if !hosts[n.id] && len(old) == len(members.GetVoters()) {
			w.replicas++
			m.in = raftgroup.Member{Replica: w.replicas, Node: nodeID(n.id)}
			if len(old) == voterCount {
				m.out = old[w.rng.IntN(len(old))]
			}
			w.note("group %d: replica %d on node %d is to replace %d", m.group, m.in.Replica, n.id, m.out.Replica)
			return
		}
	}
}

// prepare makes the new replica, which waits for a snapshot; it reports whether it is there.
func (m *move) prepare() bool {
	n := m.w.nodes[nodeOf(m.in.Node)]
	if n.host == nil {
		return false
	}
	if n.host.Group(m.group) != nil {
		return true
	}
	meta := ledger.Meta{Replica: m.in.Replica, Conf: &pb.ConfState{}, Where: raftgroup.EncodeMembers(nil, nil)}
	if err := n.store.Create(m.group, meta); err != nil {
		m.w.fail("node %d: %v", n.id, err)
		return false
	}
	n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) {
		if h.Group(m.group) != nil {
			return
		}
		if _, err := h.Open(config(m.group, meta)); err != nil && !errors.Is(err, raftgroup.ErrLeaving) {
			m.w.fail("node %d: %v", n.id, err)
		}
	})
	n.kick()
	return false
}

func (m *move) change(leader *node, changes ...raftgroup.Change) {
	leader.inbox.Calls = append(leader.inbox.Calls, func(h *raftgroup.Host) {
		h.ChangeMembers(m.group, changes, waiter(func(o raftgroup.Outcome) {
			m.w.note("group %d: change of members at %d: %v", m.group, o.Index, o.Err)
		}))
	})
	leader.kick()
}

// finish removes the old replica from its node.
func (m *move) finish() {
	w := m.w
	n := w.nodes[max(0, nodeOf(m.out.Node))] // any, if nobody is to go
	if n.host == nil {
		return
	}
	if g := n.host.Group(m.group); m.out.Replica == 0 || g == nil || g.Replica() != m.out.Replica {
		w.counts.Moves++
		w.note("group %d: replica %d is gone", m.group, m.out.Replica)
		m.in, m.out = raftgroup.Member{}, raftgroup.Member{}
		return
	}
	n.inbox.Calls = append(n.inbox.Calls, func(h *raftgroup.Host) {
		h.Close(m.group, func(g *raftgroup.Group) {
			if err := n.store.Remove(m.group); err != nil {
				w.fail("node %d: %v", n.id, err)
			}
			h.DestroyLog(g)
		})
	})
	n.kick()
}
