// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// Status is the state of a group as seen by one replica.
type Status struct {
	Group, Replica uint64
	// Leader is the ID of the leader, or 0 if none is known. Leading reports whether it is this replica.
	Leader  uint64
	Leading bool
	Term    uint64
	// Commit, Applied, and Last are indexes. First is the index of the first entry in the log.
	Commit, Applied, First, Last uint64
	Quiet                        bool
	// Members holds the members as of Applied.
	Members *pb.ConfState
	// LeaseLeft is the remaining lease time as of the last Step, in nanoseconds; 0 without a lease.
	LeaseLeft int64
	// Waiting counts uncompleted proposals. Reads counts reads that wait for an index.
	Waiting, Reads int64
	// Peers holds the other members. Only a leader knows them.
	Peers []PeerStatus
}

// PeerStatus is a member as seen by its leader.
type PeerStatus struct {
	Replica uint64
	// Match is the last entry known to be in its log. Lag is the number of entries that it lacks.
	Match, Lag uint64
	// State is probe, replicate, or snapshot.
	State   string
	Learner bool
	// Active is false if nothing was received from it in the last election timeout.
	Active bool
	// Abstains reports whether it would decline the leadership: its node abstains, or it has recently declined an
	// offer.
	Abstains bool
}

// Status returns the status of a group. ok is false if the group is not here. It must be called on the loop.
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

// QuorumWithout reports whether a group has a quorum of voters on nodes that are not in without, in each of its
// configurations. It returns true for a group that is not here. It must be called on the loop.
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
