// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// metadataName is the readable name of the meta partition.
const metadataName = "the cluster metadata"

// describeGroup describes the remaining replicas of a replica set.
func (p *planner) describeGroup(id uint64, f *found) *Group {
	longest := f.holders[0]
	g := &Group{Partition: id, Table: f.meta.Span.Table, Longest: longest.survey.Node, Last: longest.replica.Last,
		Newest: longest.replica.Newest}
	if g.Name = p.name(g.Table); id == keys.MetaPartition {
		g.Name = metadataName
	}
	if t := p.base.Schema.TableByID(g.Table); t != nil {
		g.Schema = t.Revision
	}
	was := &longest.replica.meta
	g.Voters, g.Left = len(was.Voters), p.left(f, was.Voters)
	g.Loss = p.lossOf(f)
	return g
}

// left returns the number of members that are on survivors.
func (p *planner) left(f *found, members []keys.Member) (n int) {
	for _, m := range members {
		for _, h := range f.holders {
			if h.replica.Replica == m.Replica {
				n++
			}
		}
	}
	return n
}

// lossOf determines the loss of a replica set with at least one remaining replica.
//
// An entry is acknowledged when the synced logs of a quorum of the voters contain the entry. If less than a quorum of
// the voters is lost, every quorum contains a survivor, so every acknowledged entry is on a survivor. The survivor with
// the longest log in Raft's order (first by the term of the last entry, and then by the index of the last entry) has
// all these entries. A committed entry is in the log of every leader of a later term. It is therefore in every log that
// ends in a later term, and in every log of the same term that is long enough.
//
// The applied entries of the longest log determine the voters. If the longest log contains an unapplied change of
// voters, the loss is uncertain. In a joint configuration, both halves must have a quorum.
func (p *planner) lossOf(f *found) Loss {
	longest := f.holders[0].replica
	m := &longest.meta
	loss := Whole
	for _, voters := range [2][]keys.Member{m.Voters, m.VotersOutgoing} {
		if len(voters) == 0 {
			continue
		}
		quorum, left := topology.Quorum(len(voters)), p.left(f, voters)
		switch {
		case len(voters)-left >= quorum:
			return Behind
		case left < quorum:
			loss = Complete
		}
	}
	if len(m.Voters) == 0 {
		return Behind // the voters are unknown
	}
	if longest.Changes > 0 {
		return Behind
	}
	return loss
}

// forceOf chooses the voters of a replica set that has lost its quorum. The voters are the survivor with the longest
// log and one more survivor, so that new writes are on two disks. With three voters, two voters could elect a leader
// without the longest log and lose entries. If the survivors are a quorum, all survivors may vote, because every
// majority of the survivors has all committed entries.
func (p *planner) forceOf(id uint64, f *found) {
	g := f.group
	g.Forced = id == keys.MetaPartition || g.Loss != Whole || p.force || p.joined(id)
	if !g.Forced {
		return
	}
	if id == keys.MetaPartition {
		p.forceRecords(g)
		return
	}
	was := &f.holders[0].replica.meta
	votes := func(h holder) bool {
		return slices.ContainsFunc(slices.Concat(was.Voters, was.VotersOutgoing), func(m keys.Member) bool {
			return m.Replica == h.replica.Replica
		})
	}
	most := 2
	if g.Loss == Whole {
		most = len(f.holders)
	}
	for i, h := range f.holders {
		m := Member{h.replica.Replica, h.survey.Node}
		switch {
		case i == 0, votes(h) && len(g.Votes) < most:
			g.Votes = append(g.Votes, m)
		case votes(h) || learns(was, h.replica.Replica):
			g.Learns = append(g.Learns, m)
		}
	}
	if f.meta.Frozen != 0 {
		longest := f.holders[0].replica
		g.Thaw = &Thaw{Index: longest.Last + 1, Term: longest.LastTerm, Epoch: f.meta.Epoch}
	}
}

func learns(m *keys.Meta, replica uint64) bool {
	return slices.ContainsFunc(slices.Concat(m.Learners, m.LearnersNext), func(m keys.Member) bool {
		return m.Replica == replica
	})
}

// votersMax is the maximum number of voters of a replica set.
const votersMax = 4

// forceRecords makes all survivors members of the meta partition. All survivors restart with the same records.
// Survivors in the region of the meta partition are voters. If the region has no survivors, all survivors are voters.
func (p *planner) forceRecords(g *Group) {
	region := topology.MetaSet(p.base.Topology).Region
	inside := func(s *NodeState) bool {
		n := p.base.Node(topology.NodeID(s.Node))
		return n != nil && n.Region == region
	}
	anywhere := !slices.ContainsFunc(p.states, inside)
	for _, s := range p.states {
		m := Member{Node: s.Node}
		if r := s.of(keys.MetaPartition); r != nil {
			m.Replica = r.Replica
		}
		if len(g.Votes) < votersMax && (anywhere || inside(s)) {
			g.Votes = append(g.Votes, m)
		} else {
			g.Learns = append(g.Learns, m)
		}
	}
}

// joined reports whether a partition is being merged with a partition that has lost its quorum. Both partitions then
// get new members.
func (p *planner) joined(id uint64) bool {
	part := p.base.Topology.Partition(topology.PartitionID(id))
	if part == nil || part.Merge == nil {
		return false
	}
	for _, other := range [2]topology.PartitionID{part.Merge.Left, part.Merge.Right} {
		if f := p.found[uint64(other)]; f == nil || f.group == nil || f.group.Loss != Whole {
			return true
		}
	}
	return false
}
