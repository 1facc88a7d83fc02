// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// laws is what a group keeps to check itself, with the build tag invariants. The numbers are the package's guarantees.
type laws struct {
	// term, commit and applied were seen last: none of them falls.
	term, commit, applied uint64
	// members counts changes of members, leased is that count when the last lease was granted.
	members, leased uint64
}

// pumped checks a group when all that it had ready was handed out.
func (l *laws) pumped(g *Group) {
	h := g.host
	lease := g.lease.until.Load() != 0 || g.lease.granted != 0
	invariant.Check(!lease || g.leading, "RG2: group %d has a lease and does not lead", g.id)
	invariant.Check(!lease || !g.offer.made, "RG2: group %d has a lease though its leadership was offered", g.id)
	invariant.Check(!lease || l.leased == l.members, "RG2: the lease of group %d rests on other members", g.id)
	e := g.evaluating.Load()
	invariant.Check(e == 0 || g.leading && e == g.term && g.appliedTerm == g.term,
		"RG5: group %d evaluates in term %d, its own is %d, applied is %d", g.id, e, g.term, g.appliedTerm)
	for i := range g.flights.inflight {
		f := &g.flights.inflight[i]
		invariant.Check(f.term == g.term && g.leading, "RG1: group %d waits in term %d for an entry of term %d", g.id,
			g.term, f.term)
		invariant.Check(i == 0 || f.index == 0 || f.index > g.flights.inflight[i-1].index,
			"RG1: group %d waits for entries out of order", g.id)
	}
	invariant.Check(g.tail.cut <= g.applied, "RG4: the log of group %d is cut at %d, applied is %d", g.id, g.tail.cut,
		g.applied)
	invariant.Check(g.commit == 0 || g.applied <= g.commit, "RG1: group %d has applied %d, committed is %d", g.id,
		g.applied, g.commit)
	invariant.Check(g.term >= l.term && g.commit >= l.commit && g.applied >= l.applied,
		"RG1: group %d goes back from (%d, %d, %d) to (%d, %d, %d)", g.id, l.term, l.commit, l.applied, g.term,
		g.commit,
		g.applied)
	invariant.Check(len(g.flights.orphans) <= h.opts.FateEntries, "RG7: group %d waits for %d fates", g.id,
		len(g.flights.orphans))
	invariant.Check(h.snapshotsHeld >= 0 && h.snapshotsHeld <= h.opts.SnapshotsHeld, "RG7, RG9: %d snapshots are held",
		h.snapshotsHeld)
	l.term, l.commit, l.applied = g.term, g.commit, g.applied
}

// ballot is whom a replica votes for.
type ballot struct {
	term, vote uint64
	campaigns  bool
}

func (g *Group) ballot() ballot {
	if !invariant.Enabled {
		return ballot{}
	}
	s := g.raft.node.BasicStatus()
	return ballot{s.HardState.GetTerm(), s.HardState.GetVote(), g.raft.campaigns()}
}

// voted checks that no vote was given and no campaign begun since before, unless this replica's word does not bind it
// towards the candidate's node.
func (g *Group) voted(before ballot, candidate NodeID) {
	if !invariant.Enabled || !g.promise.binds(g.host.ticks, candidate) {
		return
	}
	now := g.ballot()
	gave := now.vote != 0 && (now.vote != before.vote || now.term != before.term) && now.term >= before.term
	invariant.Check(!gave && now.campaigns == before.campaigns,
		"RG6: group %d votes for %d in term %d against its word",
		g.id, now.vote, now.term)
}

// proposed checks the terms of proposals that are put into the log.
func (g *Group) proposed(ps []Proposal) {
	for i := range ps {
		invariant.Check(ps[i].term == 0 || ps[i].term == g.term,
			"RG5: group %d proposes in term %d what was evaluated in %d", g.id, g.term, ps[i].term)
	}
}

// succeeded checks that an entry is the one whose proposers are told so.
func (f *flight) succeeded(e *appliedEntry) {
	invariant.Check(e.sequence == f.sequence && e.term == f.term && e.commands == len(f.proposals),
		"RG1: entry %d of term %d, number %d with %d commands, is taken for number %d of term %d with %d",
		e.index, e.term, e.sequence, e.commands, f.sequence, f.term, len(f.proposals))
}

// told checks that a follower hears of no commit that its leader has not applied.
func (g *Group) told(m *pb.Message) {
	if t := m.GetType(); g.leading && m.GetTerm() == g.term && (t == pb.MsgApp || t == pb.MsgHeartbeat) {
		invariant.Check(m.GetCommit() <= g.applied, "RG10: group %d tells of commit %d, applied is %d", g.id,
			m.GetCommit(), g.applied)
	}
}

// durable checks that what needs a sync of the log had one.
func durable(items []Append, sync bool) {
	for i := range items {
		it := &items[i]
		needs := it.sync || it.installing != 0 || it.hard || len(it.message.GetEntries()) > 0
		invariant.Check(sync || !needs, "RG3: the log of group %d is not synced", it.g.id)
	}
}

// kept checks that what needs a sync of the state had one.
func kept(items []Apply, synced bool) {
	for i := range items {
		it := &items[i]
		invariant.Check(synced || it.truncate == 0, "RG4: the log of group %d is cut without a sync of the state",
			it.g.id)
		invariant.Check(synced || it.members == nil, "RG11: a change of members of group %d is not synced", it.g.id)
	}
}
