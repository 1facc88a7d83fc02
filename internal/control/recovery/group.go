// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// metadataName is how the meta partition is named where people read.
const metadataName = "the records of the cluster"

// describeGroup describes what is left of a replica set.
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

// left counts the members of a list that a survivor has.
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

// lossOf says what a replica set of which something is left has lost.
//
// An entry is acknowledged when a quorum of the voters has it in a synced log. If fewer voters are lost than a quorum
// is, each quorum has a survivor in it: each acknowledged entry is on one of them. Of the survivors the one whose log
// is the longest by Raft's order, the term of the last entry before its index, has all of them: an entry that is
// committed is in the log of each leader of a later term, so in each log that ends in a later term, and in each one of
// the same term that reaches as far.
//
// The voters are those of the longest log's applied entries. Where a change of them was made that no survivor has
// applied, it was acknowledged by a quorum of those before, and so is in the longest log: nothing is sure where there
// is one. Under a joint configuration both halves have to agree.
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
		return Behind // nobody knows who voted
	}
	if longest.Changes > 0 {
		return Behind
	}
	return loss
}

// forceOf decides who votes in a replica set whose quorum is lost: the survivor with the longest log, and one more
// voter, so that what is written from now on is on two disks. More may not: two of three could elect a leader without
// the longest log, and lose what only that has. Where the survivors are a quorum all of them may: what is committed is
// on so many of them that each majority of them has it.
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

// votersMax is how many voters a replica set has.
const votersMax = 4

// forceRecords has all survivors be members of the meta partition: they begin anew with the same records.
func (p *planner) forceRecords(g *Group) {
	for i, s := range p.states {
		m := Member{Node: s.Node}
		if r := s.of(keys.MetaPartition); r != nil {
			m.Replica = r.Replica
		}
		if i < votersMax {
			g.Votes = append(g.Votes, m)
		} else {
			g.Learns = append(g.Learns, m)
		}
	}
}

// joined reports whether a partition is being merged with one that has lost its quorum: both get new members then.
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
