// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// Status is the state of a group according to one replica.
type Status struct {
	Group, Replica uint64
	// Leader is the ID of the leader, or 0 if the leader is unknown. Leading reports whether this replica is the
	// leader.
	Leader  uint64
	Leading bool
	Term    uint64
	// Commit, Applied, and Last are indexes. First is the index of the first entry in the log.
	Commit, Applied, First, Last uint64
	Quiet                        bool
	// Members holds the members as of Applied.
	Members *pb.ConfState
	// LeaseLeft is the remaining time of the lease at the last Step, in nanoseconds. It is 0 if no lease is valid.
	LeaseLeft int64
	// Waiting is the number of uncompleted proposals. Reads is the number of reads that wait for an index.
	Waiting, Reads int64
	// Peers holds the other members. It is empty unless this replica is the leader.
	Peers []PeerStatus
}

// PeerStatus is the state of a member according to the leader.
type PeerStatus struct {
	Replica uint64
	// Match is the index of the last entry that is known to be in the member's log. Lag is the number of entries that
	// the member's log lacks.
	Match, Lag uint64
	// State is probe, replicate, or snapshot.
	State   string
	Learner bool
	// Active reports whether the leader has received a message from the member during the last election timeout.
	Active bool
	// Abstains reports whether the member would decline the leadership. It is true if the member's node abstains or if
	// the member has recently declined an offer.
	Abstains bool
}

// Status returns the status of a group. ok is false if the group does not exist on this node. It must be called on the
// loop.
func (h *Host) Status(id uint64) (s Status, ok bool) {
	g := h.groups[id]
	if g == nil {
		return Status{}, false
	}
	first, _ := g.log.FirstIndex()
	last, _ := g.log.LastIndex()
	s = Status{
		Group: g.id, Replica: g.replica, Leader: g.lead, Leading: g.leading, Term: g.term, Commit: g.commit,
		Applied: g.applied,
		First:   first, Last: last, Quiet: g.quiescence.quiet, Members: proto.CloneOf(g.membership.conf),
		LeaseLeft: max(0, int64(g.lease.left(h.now))),
		Waiting:   g.pending.admitted.Load(), Reads: g.reads.admitted.Load(),
	}
	if !g.leading {
		return s, true
	}
	g.raft.progress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		if id == g.replica {
			return
		}
		r := g.route(id)
		s.Peers = append(s.Peers, PeerStatus{
			Replica: id, Match: p.Match, Lag: last - min(last, p.Match), State: p.State.String(),
			Learner:  kind == raft.ProgressTypeLearner,
			Active:   r != nil && g.active(r, &p),
			Abstains: r != nil && h.policy.abstaining[r.Node] || slices.Contains(g.offer.refused, id),
		})
	})
	return s, true
}

// QuorumWithout reports whether each configuration of a group has a quorum of voters on nodes outside the set without.
// It returns true if the group does not exist on this node. It must be called on the loop.
func (h *Host) QuorumWithout(id uint64, without map[NodeID]bool) bool {
	g := h.groups[id]
	if g == nil || len(without) == 0 {
		return true
	}
	for _, voters := range [][]uint64{g.membership.conf.GetVoters(), g.membership.conf.GetVotersOutgoing()} {
		left := 0
		for _, v := range voters {
			if r := g.route(v); r == nil || !without[r.Node] {
				left++
			}
		}
		if len(voters) > 0 && left < len(voters)/2+1 {
			return false
		}
	}
	return true
}
