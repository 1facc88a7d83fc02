// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"errors"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// startChaos schedules random faults and replica moves until the calm phase begins.
func (w *simulation) startChaos() {
	var next func()
	next = func() {
		if w.Calm {
			return
		}
		w.fault()
		w.After(w.Between(200*time.Millisecond, 1500*time.Millisecond), next)
	}
	w.After(2*time.Second, next)
	for group := uint64(1); group <= groupCount; group++ {
		m := &move{w: w, group: group}
		w.moves = append(w.moves, m)
		w.After(w.Between(3*time.Second, 6*time.Second), m.step)
	}
}

// fault injects a fault into a node. It chooses a leader half of the time.
func (w *simulation) fault() {
	n := w.nodes[w.Rand.IntN(nodeCount)]
	if w.OneIn(2) {
		if leader := w.leaderOf(1 + w.Rand.Uint64N(groupCount)); leader != nil {
			n = leader
		}
	}
	if n.Host == nil {
		return
	}
	weather := w.Weather(n.Machine, n.crash, n.restart)
	switch d := w.Rand.IntN(15); d {
	case 0, 1, 2:
		weather[0]()
	case 3, 4:
		weather[1]()
	case 5:
		n.CutWith(w.nodes[(n.ID+1+w.Rand.IntN(nodeCount-1))%nodeCount].Machine)
	case 6, 7, 8:
		weather[d-4]()
	case 9:
		w.counts.Resets++
		w.Note("connections to node %d are refused though it lives", n.ID)
		w.refuse(n)
		if w.OneIn(2) { // a firewall drops all packets
			weather[1]()
		}
	case 10:
		n.depart()
	case 11:
		w.restartTwo()
	default:
		w.transfer(n)
	}
}

// restartTwo makes a follower campaign at a critical time. The follower has not received messages from its leader for
// a long time, two other nodes have just restarted, and the leader is cut off. The restarted nodes must still keep
// their promises to the leader. Clients write nothing during that time, because a follower that lacks entries cannot
// win an election.
func (w *simulation) restartTwo() {
	group := 1 + w.Rand.Uint64N(groupCount)
	leader := w.leaderOf(group)
	if leader == nil {
		return
	}
	var others []*node
	for _, n := range w.nodes {
		if n != leader && n.Host != nil && n.Host.Group(group) != nil {
			others = append(others, n)
		}
	}
	if len(others) < 3 {
		return
	}
	w.Rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	w.counts.DoubleStarts++
	w.Note("nodes %d and %d lose each other", leader.ID, others[0].ID)
	w.Net.Separate(leader.ID, others[0].ID)
	w.lull = w.Now + 4*time.Second
	w.After(w.Between(1000*time.Millisecond, 2500*time.Millisecond), func() {
		for _, one := range others[1:3] {
			if one.Host != nil && !w.Calm {
				one.crash()
				w.After(w.Between(time.Millisecond, 50*time.Millisecond), one.restart)
			}
		}
		for _, one := range others {
			w.Net.Separate(leader.ID, one.ID)
		}
		w.After(w.Between(300*time.Millisecond, 2*time.Second), func() { w.Net.Join(leader.ID) })
	})
}

// transfer makes a leader transfer its leadership, sometimes to an unreachable node.
func (w *simulation) transfer(n *node) {
	if w.OneIn(3) {
		w.counts.Transfers++
		n.Call(func(h *raftgroup.Host) { w.Note("node %d hands everything over, %d groups", n.ID, h.TransferAll()) })
		return
	}
	for group := uint64(1); group <= groupCount; group++ {
		if n.leading(group) == nil {
			continue
		}
		s, _ := n.Host.Status(group)
		voters := s.Members.GetVoters()
		to := voters[w.Rand.IntN(len(voters))]
		w.counts.Transfers++
		n.Call(func(h *raftgroup.Host) {
			if w.plantOffer(n, group, to) {
				return
			}
			if err := h.Transfer(group, to); err == nil {
				w.Note("node %d hands group %d to replica %d", n.ID, group, to)
				w.hinder(n, group, to)
			}
		})
	}
}

// hinder disturbs an offer of leadership. Either a paused process receives the offer after the leader has abandoned
// it, or the leader does not receive the result.
func (w *simulation) hinder(n *node, group, to uint64) {
	if w.Calm {
		return
	}
	target := w.at(group, to)
	switch {
	case target == nil || target == n || w.OneIn(4):
	case w.OneIn(2):
		w.counts.LateOffers++
		target.Pause(1200*time.Millisecond, 3*time.Second)
	default:
		w.counts.LostOffers++
		w.After(w.Between(time.Millisecond, 4*time.Millisecond), func() {
			w.Weather(n.Machine, n.crash, n.restart)[1]()
		})
	}
}

// at returns the node of a replica, or nil if no running node has the replica.
func (w *simulation) at(group, replica uint64) *node {
	for _, n := range w.nodes {
		if n.Host == nil {
			continue
		}
		if g := n.Host.Group(group); g != nil && g.Replica() == replica {
			return n
		}
	}
	return nil
}

// heal ends all faults.
func (w *simulation) heal() { w.Heal(func(m *simenv.Machine) { w.nodes[m.ID].restart() }) }

// move replaces a member of a group. It adds a learner on a node without a replica, sends a snapshot, and then makes
// both changes in a joint configuration. It repeats each step until the effect is visible, regardless of crashes, as a
// reconciler does.
type move struct {
	w     *simulation
	group uint64
	// in is the new replica, and out is the old replica. Both are zero between moves.
	in, out raftgroup.Member
}

func (m *move) step() {
	w := m.w
	if w.finished && m.in.Replica == 0 {
		return
	}
	w.After(w.Between(100*time.Millisecond, 400*time.Millisecond), m.step)
	leader := w.leaderOf(m.group)
	if leader == nil {
		return
	}
	s, _ := leader.Host.Status(m.group)
	if len(s.Members.GetVotersOutgoing()) > 0 {
		return
	}
	switch {
	case m.in.Replica == 0:
		if !w.Calm && w.OneIn(6) {
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

// begin chooses a member and a node without a replica.
func (m *move) begin(members *pb.ConfState) {
	w := m.w
	hosts := map[int]bool{}
	var old []raftgroup.Member
	for _, n := range w.nodes {
		if n.Host == nil {
			return
		}
		if g := n.Host.Group(m.group); g != nil {
			hosts[n.ID] = true
			if contains(members.GetVoters(), g.Replica()) {
				old = append(old, raftgroup.Member{Replica: g.Replica(), Node: nodeID(n.ID)})
			}
		}
	}
	for _, n := range w.nodes {
		if !hosts[n.ID] && len(old) == len(members.GetVoters()) {
			w.replicas++
			m.in = raftgroup.Member{Replica: w.replicas, Node: nodeID(n.ID)}
			if len(old) == voterCount {
				m.out = old[w.Rand.IntN(len(old))]
			}
			w.Note("group %d: replica %d on node %d is to replace %d", m.group, m.in.Replica, n.ID, m.out.Replica)
			return
		}
	}
}

// prepare creates the new replica, which waits for a snapshot. prepare reports whether the replica exists.
func (m *move) prepare() bool {
	n := m.w.nodes[nodeOf(m.in.Node)]
	if n.Host == nil {
		return false
	}
	if n.Host.Group(m.group) != nil {
		return true
	}
	meta := ledger.Meta{Replica: m.in.Replica, Conf: &pb.ConfState{}, Where: raftgroup.EncodeMembers(nil, nil)}
	if err := n.store.Create(m.group, meta); err != nil {
		m.w.Fail("node %d: %v", n.ID, err)
		return false
	}
	n.Call(func(h *raftgroup.Host) {
		if h.Group(m.group) != nil {
			return
		}
		if _, err := h.Open(config(m.group, meta)); err != nil && !errors.Is(err, raftgroup.ErrLeaving) {
			m.w.Fail("node %d: %v", n.ID, err)
		}
	})
	return false
}

func (m *move) change(leader *node, changes ...raftgroup.Change) {
	leader.Call(func(h *raftgroup.Host) {
		h.ChangeMembers(m.group, changes, waiter(func(o raftgroup.Outcome) {
			m.w.Note("group %d: change of members at %d: %v", m.group, o.Index, o.Err)
			if m.w.plan.ChangeCrashes && o.Err == nil {
				m.crashVoter()
			}
		}))
	})
}

// crashVoter crashes a voter whose log may contain the end of a membership change that the voter has not started to
// apply.
func (m *move) crashVoter() {
	w := m.w
	leader := w.leaderOf(m.group)
	if leader == nil || w.Calm {
		return
	}
	s, _ := leader.Host.Status(m.group)
	voters := s.Members.GetVoters()
	n := w.at(m.group, voters[w.Rand.IntN(len(voters))])
	if n == nil || n == leader {
		return
	}
	n.AfterLife(w.Between(0, 4*time.Millisecond), func() {
		n.crash()
		w.After(w.Between(50*time.Millisecond, time.Second), n.restart)
	})
}

// finish removes the old replica from its node.
func (m *move) finish() {
	w := m.w
	n := w.nodes[max(0, nodeOf(m.out.Node))] // any node, if no replica is removed
	if n.Host == nil {
		return
	}
	if g := n.Host.Group(m.group); m.out.Replica == 0 || g == nil || g.Replica() != m.out.Replica {
		w.counts.Moves++
		w.Note("group %d: replica %d is gone", m.group, m.out.Replica)
		m.in, m.out = raftgroup.Member{}, raftgroup.Member{}
		return
	}
	n.Call(func(h *raftgroup.Host) {
		h.Close(m.group, func(g *raftgroup.Group) {
			if err := n.store.Remove(m.group); err != nil {
				w.Fail("node %d: %v", n.ID, err)
			}
			h.DestroyLog(g)
		})
	})
}
