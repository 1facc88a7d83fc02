// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// tail is the part of a group's log that has not been truncated: how much of it is with the log writer, and where it
// begins.
type tail struct {
	g *Group
	// writing counts appends with the log writer. hard is the newest hard state that the library has handed out; its
	// term and vote are in the log once those appends are done, its commit index only if it was written with them.
	writing int
	hard    hardState
	// cut is the last entry that is gone. Invariant: cut <= applied.
	cut     uint64
	cutting bool // a truncation is under way
	// bytes are those of entries appended since the last truncation, about.
	bytes int64
}

// hardState is what a replica must remember beside its entries.
type hardState struct{ term, vote, commit uint64 }

// append hands a write to the log writer, or lets it wait for an installation, so that the order stays.
func (t *tail) append(m *pb.Message, sync bool) {
	g := t.g
	snapshot := !raft.IsEmptySnap(m.GetSnapshot())
	if len(g.snapshots.appends) > 0 || snapshot {
		g.snapshots.appends = append(g.snapshots.appends, waiting{m, g.snapshots.claimData(snapshot)})
		g.snapshots.tryInstall()
		return
	}
	if !sync && t.answer(m) {
		return
	}
	t.hand(m, sync)
}

// answer spares the log writer what needs no write: a new commit index, and answers to others, if everything they
// depend on is durable. It reports whether nothing is left to do.
func (t *tail) answer(m *pb.Message) bool {
	g, h := t.g, t.g.host
	if t.writing > 0 {
		return false
	}
	if m.Term != nil {
		t.hard.commit = m.GetCommit()
	}
	for _, r := range m.GetResponses() {
		if r.GetTo() == g.replica {
			_ = g.raft.Step(r)
		} else {
			h.send(g, r)
		}
	}
	return true
}

// hand hands a write to the log writer. The commit index alone is not worth a write: it is in the state, or the replica
// finds it out again. It is written with each change of members (RG12).
func (t *tail) hand(m *pb.Message, sync bool) {
	g, h := t.g, t.g.host
	hard := firstChange(m.GetEntries()) >= 0
	if m.Term != nil {
		hard = hard || m.GetTerm() != t.hard.term || m.GetVote() != t.hard.vote
		t.hard = hardState{m.GetTerm(), m.GetVote(), m.GetCommit()}
	}
	t.writing++
	bytes := int64(0)
	for _, e := range m.GetEntries() {
		bytes += int64(len(e.GetData())) + entryOverhead
	}
	h.logQueued += bytes
	t.bytes += bytes
	h.work.Appends = append(h.work.Appends, Append{g: g, message: m, sync: sync, hard: hard, state: t.hard,
		bytes: bytes})
}

// entryOverhead is about how many bytes an entry takes beside its data.
const entryOverhead = 64

// logged tells the library what is in the log now.
func (h *Host) logged(l *Logged) {
	g := l.g
	h.logQueued -= l.bytes
	if l.destroy {
		delete(h.leaving, g.id)
	}
	if l.installing {
		g.snapshots.install()
		return
	}
	if g.closed {
		return
	}
	if l.truncate != 0 {
		g.tail.cutting = false
		g.tail.cut, g.tail.bytes = max(g.tail.cut, l.truncate), 0
		if h.opts.Events.Truncated != nil {
			h.opts.Events.Truncated(g.id, l.truncate)
		}
		return
	}
	g.tail.writing--
	if s := l.message.GetSnapshot(); !raft.IsEmptySnap(s) {
		meta := s.GetMetadata()
		g.tail.cut, g.tail.bytes = meta.GetIndex(), 0
		g.flights.passed(meta.GetIndex(), meta.GetTerm())
		g.moveApplied(meta.GetIndex(), meta.GetTerm())
		if h.opts.Events.SnapshotInstalled != nil {
			h.opts.Events.SnapshotInstalled(g.id, meta.GetIndex())
		}
	}
	for _, m := range l.message.GetResponses() {
		if m.GetTo() == g.replica {
			_ = g.raft.Step(m)
		}
	}
	h.mark(g)
}

// crampedLogBytes is the length of a log at which it is cut while the disk is cramped.
const crampedLogBytes = 1 << 20

// Cramped says whether the disk of the node has little room left: logs are kept short then, so that a follower that
// was away for a moment needs a snapshot instead. Loop only.
func (h *Host) Cramped(on bool) {
	h.cramped = on
	for _, g := range h.order {
		if on && !g.closed {
			g.tail.consider()
		}
	}
}

// consider asks for a sync of the state machine when the log is long; after that sync the log is cut (RG4).
func (t *tail) consider() {
	g, h := t.g, t.g.host
	o := &h.opts
	keep, bytesMax := o.TruncateKeep, o.TruncateBytes
	if h.cramped {
		bytesMax = min(bytesMax, crampedLogBytes)
	}
	if t.bytes >= bytesMax {
		keep = min(keep, (g.applied-t.cut)/2) // large entries: half of them stay
	}
	if t.cutting || g.applied < t.cut+o.TruncateEntries && t.bytes < bytesMax || g.applied < t.cut+keep+1 {
		return
	}
	t.cutting = true
	h.work.Applies = append(h.work.Applies, Apply{g: g, truncate: g.applied - keep})
}

// truncate hands the cut to the log writer. Entries that receivers of snapshots under way will ask for next stay.
func (t *tail) truncate(index uint64) {
	g, h := t.g, t.g.host
	t.cutting = false
	if g.closed || len(g.snapshots.shipping) > 0 || g.snapshots.installing || len(g.snapshots.appends) > 0 ||
		index <= t.cut || index > g.applied {
		return
	}
	term, err := g.log.Term(index)
	if err != nil {
		return // the log was reset meanwhile
	}
	t.cutting = true
	h.work.Appends = append(h.work.Appends, Append{g: g, truncate: index, term: term})
}
