// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// A leader that steps down does not know whether the entries in its log will be committed. As long as the replica
// exists, it can still determine the outcome. Exactly one entry is committed at each index, and the entry is the same
// on every replica. If the committed entry is the proposed entry, the proposal has succeeded. If the committed entry
// has another term, the proposal has failed. The proposal has also failed if an entry of a newer term was committed at
// a lower index, because terms do not decrease along a log. The outcome remains unknown only if a snapshot replaces the
// index, the replica is closed, or Options.OutcomeTicks pass.

// pendingProposals holds the proposals of a replica whose proposers are waiting.
type pendingProposals struct {
	g *Group
	// admitted is the number of admitted proposals that are not completed.
	admitted atomic.Int64
	// queue holds the proposals that are not yet in the log. held reports whether the group is in batcher.waiting.
	queue []Proposal
	held  bool
	// sequence is the sequence of the last entry that this replica has proposed.
	sequence uint64
	inflight []pendingProposal // in the order of the log
	// changing reports whether a membership change is pending.
	changing bool
	// orphans holds entries of earlier terms whose outcome is not yet known.
	orphans []pendingProposal
}

// pendingProposal is an entry in the log whose proposers are waiting. members is set for a membership change.
type pendingProposal struct {
	term, sequence uint64
	// index is 0 until the library has assigned the index. orphaned is the tick in which the leadership was lost.
	index, orphaned uint64
	proposals       []Proposal
	members         Waiter
	// counted reports whether batcher.unapplied includes the entry. proposed is the tick of the proposal.
	counted  bool
	proposed uint64
}

func (f *pendingProposal) end(o Outcome) {
	for i := range f.proposals {
		f.proposals[i].end(o)
	}
	if f.members != nil {
		f.members.Done(o)
	}
}

// outcomeKind is the outcome of a pending proposal.
type outcomeKind uint8

const (
	outcomeOpen outcomeKind = iota
	outcomeApplied
	outcomeReplaced
	outcomeUnknown
)

// outcome returns the outcome of the proposal after an entry is committed. The caller must pass entries in order.
func (f *pendingProposal) outcome(index, term uint64) outcomeKind {
	switch {
	case f.index == 0:
		return outcomeOpen
	case f.index == index && f.term == term:
		return outcomeApplied
	case f.index == index, f.index > index && f.term < term:
		return outcomeReplaced
	case f.index < index:
		return outcomeUnknown // the entry at this index was not observed
	}
	return outcomeOpen
}

// number sets the indexes of entries that the library has just appended to its log. A Ready contains all entries that
// have been proposed since the previous Ready. The library replaces a rejected membership change with an empty entry.
func (fs *pendingProposals) number(entries []*pb.Entry) {
	next := len(fs.inflight)
	for next > 0 && fs.inflight[next-1].index == 0 {
		next--
	}
	if next == len(fs.inflight) || len(entries) == 0 {
		return
	}
	for _, e := range entries {
		sequence := sequenceOf(e)
		for i := next; sequence != 0 && i < len(fs.inflight); i++ {
			if f := &fs.inflight[i]; f.sequence == sequence && f.term == e.GetTerm() {
				f.index = e.GetIndex()
				break
			}
		}
	}
	left := fs.inflight[:next]
	for _, f := range fs.inflight[next:] {
		if f.index == 0 && f.members != nil {
			fs.changing = false
			f.end(Outcome{Err: ErrMembersBusy})
			continue
		}
		left = append(left, f)
	}
	fs.inflight = left
}

// sequenceOf returns the sequence of an entry, or 0 if the entry has no sequence.
func sequenceOf(e *pb.Entry) uint64 {
	if e.GetType() != pb.EntryNormal {
		_, sequence, _, err := decodeChange(e)
		if err != nil {
			return 0
		}
		return sequence
	}
	d := newDecoder(e.GetData())
	if d.Byte() != commandsVersion {
		return 0
	}
	return d.Uint()
}

// finish completes the proposals whose outcome is determined by an applied entry.
func (fs *pendingProposals) finish(e *appliedEntry, results []any) {
	for len(fs.inflight) > 0 {
		f := &fs.inflight[0]
		what := f.outcome(e.index, e.term)
		if what == outcomeOpen {
			break
		}
		if f.members != nil {
			fs.changing = false
		}
		fs.g.host.batcher.applied(f)
		f.complete(what, e, results)
		fs.inflight[0] = pendingProposal{}
		fs.inflight = fs.inflight[1:]
	}
	if len(fs.orphans) > 0 {
		fs.finishOrphans(e, results)
	}
}

func (fs *pendingProposals) finishOrphans(e *appliedEntry, results []any) {
	fs.settleOrphans(e.index, e.term, func(f *pendingProposal, what outcomeKind) { f.complete(what, e, results) })
}

// settleOrphans calls complete for the orphans whose outcome is determined by a committed entry.
func (fs *pendingProposals) settleOrphans(index, term uint64, complete func(*pendingProposal, outcomeKind)) {
	left := fs.orphans[:0]
	for _, f := range fs.orphans {
		if what := f.outcome(index, term); what == outcomeOpen {
			left = append(left, f)
		} else {
			complete(&f, what)
		}
	}
	clear(fs.orphans[len(left):])
	fs.orphans = left
}

// complete notifies the proposers of an entry.
func (f *pendingProposal) complete(what outcomeKind, e *appliedEntry, results []any) {
	switch what {
	case outcomeReplaced:
		f.end(Outcome{Err: ErrReplaced})
	case outcomeUnknown:
		f.end(Outcome{Err: ErrUnknown})
	default:
		if invariant.Enabled {
			f.checkSucceeded(e)
		}
		o := Outcome{Index: e.index, Term: e.term}
		for i := range f.proposals {
			if o.Result = nil; i < len(results) {
				o.Result = results[i]
			}
			f.proposals[i].end(o)
		}
		if f.members != nil {
			o.Result = nil
			f.members.Done(o)
		}
	}
}

// passed handles a snapshot. All entries up to the index of the snapshot have been applied, but their outcomes are
// unknown.
func (fs *pendingProposals) passed(index, term uint64) {
	fs.settleOrphans(index, term, func(f *pendingProposal, what outcomeKind) {
		if what == outcomeApplied {
			what = outcomeUnknown // the snapshot may contain the entry, but not its result
		}
		f.complete(what, nil, nil)
	})
}

// orphan converts the pending proposals to orphans when the leadership is lost. The outcome of an entry without an
// index is unknown.
func (fs *pendingProposals) orphan() {
	h := fs.g.host
	for i := range fs.inflight {
		f := &fs.inflight[i]
		h.batcher.applied(f)
		f.orphaned = h.ticks
		if f.index == 0 {
			f.end(Outcome{Err: ErrUnknown})
		} else {
			fs.orphans = append(fs.orphans, *f)
		}
	}
	fs.inflight = nil
	for len(fs.orphans) > h.opts.OutcomeEntries {
		fs.orphans[0].end(Outcome{Err: ErrUnknown})
		fs.orphans = fs.orphans[1:]
	}
}

// tick abandons proposals that have waited too long.
func (fs *pendingProposals) tick() {
	h := fs.g.host
	for len(fs.orphans) > 0 && h.ticks-fs.orphans[0].orphaned > uint64(h.opts.OutcomeTicks) {
		fs.orphans[0].end(Outcome{Err: ErrUnknown})
		fs.orphans = fs.orphans[1:]
	}
}

// abandon abandons all proposals.
func (fs *pendingProposals) abandon() {
	for i := range fs.orphans {
		fs.orphans[i].end(Outcome{Err: ErrUnknown})
	}
	fs.orphans = nil
}
