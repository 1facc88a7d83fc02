// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// invariants is the state for checking the invariants of a group in builds with the invariants tag.
type invariants struct {
	// term, commit, and applied are the last values. They must not decrease.
	term, commit, applied uint64
	// members is the number of membership changes. leased is the value of members at the time when the last lease was
	// granted.
	members, leased uint64
}

// checkReady checks a group after all ready work has been returned.
func (l *invariants) checkReady(g *Group) {
	h := g.host
	lease := g.lease.until.Load() != 0 || g.lease.granted != 0
	invariant.Check(!lease || g.leading, "RG2: group %d has a lease but is not the leader", g.id)
	invariant.Check(!lease || !g.offer.made, "RG2: group %d has a lease during a leader transfer", g.id)
	invariant.Check(!lease || l.leased == l.members, "RG2: the lease of group %d was confirmed by different members",
		g.id)
	e := g.evaluating.Load()
	invariant.Check(e == 0 || g.leading && e == g.term && g.appliedTerm == g.term,
		"RG5: group %d evaluates in term %d, but its term is %d and applied index %d", g.id, e, g.term, g.appliedTerm)
	for i := range g.pending.inflight {
		f := &g.pending.inflight[i]
		invariant.Check(f.term == g.term && g.leading, "RG1: group %d waits in term %d for an entry of term %d", g.id,
			g.term, f.term)
		invariant.Check(i == 0 || f.index == 0 || f.index > g.pending.inflight[i-1].index,
			"RG1: group %d waits for entries out of order", g.id)
	}
	invariant.Check(g.tail.cut <= g.applied, "RG4: the log of group %d is truncated at %d, but the applied index is %d",
		g.id, g.tail.cut,
		g.applied)
	invariant.Check(g.commit == 0 || g.applied <= g.commit, "RG1: group %d has applied index %d, but the committed "+
		"index is %d", g.id,
		g.applied, g.commit)
	invariant.Check(g.term >= l.term && g.commit >= l.commit && g.applied >= l.applied,
		"RG1: the state of group %d decreases from (%d, %d, %d) to (%d, %d, %d)", g.id, l.term, l.commit, l.applied,
		g.term,
		g.commit,
		g.applied)
	invariant.Check(len(g.pending.orphans) <= h.opts.OutcomeEntries, "RG7: group %d waits for %d outcomes", g.id,
		len(g.pending.orphans))
	invariant.Check(h.snapshotsHeld >= 0 && h.snapshotsHeld <= h.opts.SnapshotsHeld, "RG7, RG9: %d snapshots are held",
		h.snapshotsHeld)
	l.term, l.commit, l.applied = g.term, g.commit, g.applied
}

// voteState is the vote of a replica.
type voteState struct {
	term, vote uint64
	campaigns  bool
}

func (g *Group) voteState() voteState {
	if !invariant.Enabled {
		return voteState{}
	}
	s := g.raft.node.BasicStatus()
	return voteState{s.HardState.GetTerm(), s.HardState.GetVote(), g.raft.campaigns()}
}

// checkVote checks that the replica has neither voted nor campaigned since the state before was recorded. It allows a
// vote for a candidate to which the promise not to vote does not apply.
func (g *Group) checkVote(before voteState, candidate NodeID) {
	if !invariant.Enabled || !g.election.voteLease.binds(g.host.ticks, candidate) {
		return
	}
	now := g.voteState()
	gave := now.vote != 0 && (now.vote != before.vote || now.term != before.term) && now.term >= before.term
	invariant.Check(!gave && now.campaigns == before.campaigns,
		"RG6: group %d votes for %d in term %d despite its promise",
		g.id, now.vote, now.term)
}

// checkProposed checks the terms of proposals that are appended to the log.
func (g *Group) checkProposed(ps []Proposal) {
	for i := range ps {
		invariant.Check(ps[i].term == 0 || ps[i].term == g.term,
			"RG5: group %d proposes in term %d what was evaluated in %d", g.id, g.term, ps[i].term)
	}
}

// checkSucceeded checks that an applied entry is the entry of its proposers.
func (f *pendingProposal) checkSucceeded(e *appliedEntry) {
	invariant.Check(e.sequence == f.sequence && e.term == f.term && e.commands == len(f.proposals),
		"RG1: entry %d of term %d, number %d with %d commands, is confused with number %d of term %d with %d",
		e.index, e.term, e.sequence, e.commands, f.sequence, f.term, len(f.proposals))
}

// checkCommit checks that a follower is not notified of a commit that its leader has not applied.
func (g *Group) checkCommit(m *pb.Message) {
	if t := m.GetType(); g.leading && m.GetTerm() == g.term && (t == pb.MsgApp || t == pb.MsgHeartbeat) {
		invariant.Check(m.GetCommit() <= g.applied, "RG10: group %d reports commit %d, but the applied index is %d",
			g.id,
			m.GetCommit(), g.applied)
	}
}

// checkDurable checks that appends that require a sync of the log have been synced.
func checkDurable(items []Append, sync bool) {
	for i := range items {
		it := &items[i]
		needs := it.sync || it.installing != 0 || it.hard || len(it.message.GetEntries()) > 0
		invariant.Check(sync || !needs, "RG3: the log of group %d is not synced", it.g.id)
	}
}

// checkSynced checks that applies that require a sync of the state have been synced.
func checkSynced(items []Apply, synced bool) {
	for i := range items {
		it := &items[i]
		invariant.Check(synced || it.truncate == 0, "RG4: the log of group %d is truncated without a sync of the state",
			it.g.id)
		invariant.Check(synced || it.members == nil, "RG11: a change of members of group %d is not synced", it.g.id)
	}
}
