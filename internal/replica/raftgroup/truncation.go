// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// logTail tracks the start of a group's log and the appends in progress.
type logTail struct {
	g *Group
	// writing is the number of appends in progress. hard is the newest hard state from the library. The log contains
	// the term and the vote of hard when these appends have finished. The commit index need not be in the log.
	writing int
	hard    hardState
	// cut is the index of the last truncated entry. Invariant: cut <= applied.
	cut     uint64
	cutting bool // a truncation is in progress
	// bytes is the approximate size of the entries appended since the last truncation.
	bytes int64
}

// hardState is the state that a replica must store in addition to its entries.
type hardState struct{ term, vote, commit uint64 }

// append passes a write to the log writer. If an installation is pending, the write waits for the installation.
func (t *logTail) append(m *pb.Message, sync bool) {
	g := t.g
	snapshot := !raft.IsEmptySnap(m.GetSnapshot())
	if len(g.snapshots.appends) > 0 || snapshot {
		g.snapshots.appends = append(g.snapshots.appends, waitingAppend{m, g.snapshots.claimData(snapshot)})
		g.snapshots.tryInstall()
		return
	}
	if !sync && t.answerWithoutWrite(m) {
		return
	}
	t.write(m, sync)
}

// answerWithoutWrite handles a message that needs no write, such as a message with a new commit index or with responses
// whose dependencies are durable. It returns false if the message needs a write.
func (t *logTail) answerWithoutWrite(m *pb.Message) bool {
	g := t.g
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
			g.send(r)
		}
	}
	return true
}

// write passes a write to the log writer. It does not write a commit index alone, because the replica can determine the
// commit index again. It writes the commit index with each membership change (RG12).
func (t *logTail) write(m *pb.Message, sync bool) {
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

// entryOverhead is the approximate size of an entry in addition to its data.
const entryOverhead = 64

// logged notifies the library of entries that have been written to the log.
func (t *logTail) logged(l *Logged) {
	g, h := t.g, t.g.host
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
		t.cutting = false
		t.cut, t.bytes = max(t.cut, l.truncate), 0
		h.opts.Observer.Truncated(g.id, l.truncate)
		return
	}
	t.writing--
	if s := l.message.GetSnapshot(); !raft.IsEmptySnap(s) {
		meta := s.GetMetadata()
		t.cut, t.bytes = meta.GetIndex(), 0
		g.pending.passed(meta.GetIndex(), meta.GetTerm())
		g.moveApplied(meta.GetIndex(), meta.GetTerm())
		h.opts.Observer.SnapshotInstalled(g.id, meta.GetIndex())
	}
	for _, m := range l.message.GetResponses() {
		if m.GetTo() == g.replica {
			_ = g.raft.Step(m)
		}
	}
	h.mark(g)
}

// lowDiskLogBytes is the size at which a log is truncated while the disk has little free space.
const lowDiskLogBytes = 1 << 20

// SetLowDisk sets whether the disk of the node has little free space. If it has, logs are kept short, and a follower
// needs a snapshot even after a brief outage. It must be called on the loop.
func (h *Host) SetLowDisk(on bool) {
	h.lowDisk = on
	for _, g := range h.order {
		if on && !g.closed {
			g.tail.maybeTruncate()
		}
	}
}

// maybeTruncate requests a sync of the state machine if the log is long. The log is truncated after this sync (RG4).
func (t *logTail) maybeTruncate() {
	g, h := t.g, t.g.host
	o := &h.opts
	keep, bytesMax := o.TruncateKeep, o.TruncateBytes
	if h.lowDisk {
		bytesMax = min(bytesMax, lowDiskLogBytes)
	}
	if t.bytes >= bytesMax {
		keep = min(keep, (g.applied-t.cut)/2) // keep only half of a log with large entries
	}
	if t.cutting || g.applied < t.cut+o.TruncateEntries && t.bytes < bytesMax || g.applied < t.cut+keep+1 {
		return
	}
	t.cutting = true
	h.work.Applies = append(h.work.Applies, Apply{g: g, truncate: g.applied - keep})
}

// truncate passes the truncation to the log writer. It keeps the entries that the receivers of snapshots in progress
// will request next.
func (t *logTail) truncate(index uint64) {
	g, h := t.g, t.g.host
	t.cutting = false
	if g.closed || len(g.snapshots.shipping) > 0 || g.snapshots.installing || len(g.snapshots.appends) > 0 ||
		index <= t.cut || index > g.applied {
		return
	}
	term, err := g.log.Term(index)
	if err != nil {
		return // the log has been reset since the request
	}
	t.cutting = true
	h.work.Appends = append(h.work.Appends, Append{g: g, truncate: index, term: term})
}
