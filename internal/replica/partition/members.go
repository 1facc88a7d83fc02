// SPDX-License-Identifier: Apache-2.0

package partition

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// setMembers stores a configuration in a meta, with the nodes of the members.
func setMembers(m *keys.Meta, c *pb.ConfState, places []raftgroup.Member) {
	list := func(ids []uint64) []keys.Member {
		var out []keys.Member
		for _, id := range ids {
			member := keys.Member{Replica: id}
			for i := range places {
				if places[i].Replica == id {
					member.Node = places[i].Node
				}
			}
			out = append(out, member)
		}
		return out
	}
	m.Voters, m.Learners = list(c.GetVoters()), list(c.GetLearners())
	m.VotersOutgoing, m.LearnersNext = list(c.GetVotersOutgoing()), list(c.GetLearnersNext())
	m.AutoLeave = c.GetAutoLeave()
}

// confOf returns the configuration in a meta in the library's format.
func confOf(m *keys.Meta) *pb.ConfState {
	ids := func(list []keys.Member) []uint64 {
		var out []uint64
		for i := range list {
			out = append(out, list[i].Replica)
		}
		return out
	}
	leave := m.AutoLeave
	return &pb.ConfState{
		Voters: ids(m.Voters), Learners: ids(m.Learners), VotersOutgoing: ids(m.VotersOutgoing),
		LearnersNext: ids(m.LearnersNext),
		AutoLeave:    &leave,
	}
}

// memberNodes returns the members in a meta with their nodes. Each member occurs once.
func memberNodes(m *keys.Meta) []raftgroup.Member {
	var out []raftgroup.Member
	known := map[uint64]bool{}
	for _, list := range [][]keys.Member{m.Voters, m.Learners, m.VotersOutgoing, m.LearnersNext} {
		for i := range list {
			if !known[list[i].Replica] {
				known[list[i].Replica] = true
				out = append(out, raftgroup.Member{Replica: list[i].Replica, Node: list[i].Node})
			}
		}
	}
	return out
}

// configOf returns the configuration for opening a Raft group.
func configOf(replica uint64, m *keys.Meta, fresh bool) raftgroup.GroupConfig {
	return raftgroup.GroupConfig{
		ID: m.Partition, Replica: replica, Applied: m.Applied, Term: m.Term, Conf: confOf(m), Where: memberNodes(m),
		Fresh:   fresh,
		Initial: m.Term == keys.InitialTerm, // a leader's entries have a later term
	}
}
