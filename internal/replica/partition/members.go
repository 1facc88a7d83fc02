// SPDX-License-Identifier: Apache-2.0

package partition

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// setMembers puts a configuration into a meta, with the nodes that the members are on.
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

// confOf is the configuration of a meta as the library has it.
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

// placesOf says where the members of a meta are, each once.
func placesOf(m *keys.Meta) []raftgroup.Member {
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

// configOf is what a Raft group is opened with.
func configOf(replica uint64, m *keys.Meta, fresh bool) raftgroup.GroupConfig {
	return raftgroup.GroupConfig{
		ID: m.Partition, Replica: replica, Applied: m.Applied, Term: m.Term, Conf: confOf(m), Where: placesOf(m),
		Fresh: fresh,
		Born:  m.Term == keys.InitialTerm, // what a leader has proposed is of a later one
	}
}
