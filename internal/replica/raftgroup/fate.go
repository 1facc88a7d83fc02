// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// A leader that steps down does not know whether the entries in its log will be committed. As long as the replica lives
// it finds out: at each index one entry is committed, the same on every replica. If that is the one proposed, the
// proposal has succeeded. If it is of another term, or if an entry of a newer term was committed before that index, the
// proposed entry is not in the log and never will be, because terms do not decrease along a log. The outcome stays open
// only if a snapshot passes the index, the replica ends, or its patience does.

// flights are the entries that a replica has proposed and whose proposers wait.
type flights struct {
	g *Group
	// sequence is that of the last entry this replica proposed.
	sequence uint64
	inflight []flight // in log order
	// changing says that a change of members is among them.
	changing bool
	// orphans are of terms that are over: their fate is not known yet.
	orphans []flight
}

// flight is an entry in the log whose proposers wait; members is set for a change of members.
type flight struct {
	term, sequence uint64
	// index is known as soon as the library has given it one; orphaned is the tick in which the leadership was lost.
	index, orphaned uint64
	proposals       []Proposal
	members         Waiter
	// counted says that it is one of gathering.unapplied, since the tick proposed.
	counted  bool
	proposed uint64
}

func (f *flight) end(o Outcome) {
	for i := range f.proposals {
		f.proposals[i].end(o)
	}
	if f.members != nil {
		f.members.Done(o)
	}
}

// fate of a flight.
type fate uint8

const (
	fateOpen fate = iota
	fateDone
	fateReplaced
	fateUnknown
)

// fate says what a committed entry reveals of a flight; entries come in order.
func (f *flight) fate(index, term uint64) fate {
	switch {
	case f.index == 0:
		return fateOpen
	case f.index == index && f.term == term:
		return fateDone
	case f.index == index, f.index > index && f.term < term:
		return fateReplaced
	case f.index < index:
		return fateUnknown // passed unseen
	}
	return fateOpen
}

// number gives flights the indexes of their entries, which the library has just put into its log: everything proposed
// since the last Ready is in this one. The library replaces a change of members that it refuses by an empty entry; such
// a change is in no log.
func (fs *flights) number(entries []*pb.Entry) {
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

// sequenceOf reads the sequence of an entry, 0 if it has none.
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

// finish ends the proposals whose fate an applied entry decides.
func (fs *flights) finish(e *appliedEntry, results []any) {
	for len(fs.inflight) > 0 {
		f := &fs.inflight[0]
		what := f.fate(e.index, e.term)
		if what == fateOpen {
			break
		}
		if f.members != nil {
			fs.changing = false
		}
		fs.g.host.gathering.landed(f)
		f.conclude(what, e, results)
		fs.inflight[0] = flight{}
		fs.inflight = fs.inflight[1:]
	}
	if len(fs.orphans) > 0 {
		fs.finishOrphans(e, results)
	}
}

func (fs *flights) finishOrphans(e *appliedEntry, results []any) {
	left := fs.orphans[:0]
	for _, f := range fs.orphans {
		if what := f.fate(e.index, e.term); what == fateOpen {
			left = append(left, f)
		} else {
			f.conclude(what, e, results)
		}
	}
	clear(fs.orphans[len(left):])
	fs.orphans = left
}

// conclude tells the proposers.
func (f *flight) conclude(what fate, e *appliedEntry, results []any) {
	switch what {
	case fateReplaced:
		f.end(Outcome{Err: ErrReplaced})
	case fateUnknown:
		f.end(Outcome{Err: ErrUnknown})
	default:
		if invariant.Enabled {
			f.succeeded(e)
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

// passed takes note of a snapshot: entries up to its index are applied, and their outcome is not known.
func (fs *flights) passed(index, term uint64) {
	left := fs.orphans[:0]
	for _, f := range fs.orphans {
		switch what := f.fate(index, term); what {
		case fateOpen:
			left = append(left, f)
		case fateReplaced:
			f.end(Outcome{Err: ErrReplaced})
		default:
			f.end(Outcome{Err: ErrUnknown}) // it may be in the snapshot; its result is not
		}
	}
	clear(fs.orphans[len(left):])
	fs.orphans = left
}

// orphan keeps the flights when leadership is lost. The fate of one without an index cannot be found out.
func (fs *flights) orphan() {
	h := fs.g.host
	for i := range fs.inflight {
		f := &fs.inflight[i]
		h.gathering.landed(f)
		f.orphaned = h.ticks
		if f.index == 0 {
			f.end(Outcome{Err: ErrUnknown})
		} else {
			fs.orphans = append(fs.orphans, *f)
		}
	}
	fs.inflight = nil
	for len(fs.orphans) > h.opts.FateEntries {
		fs.orphans[0].end(Outcome{Err: ErrUnknown})
		fs.orphans = fs.orphans[1:]
	}
}

// tick gives up those that have waited too long.
func (fs *flights) tick() {
	h := fs.g.host
	for len(fs.orphans) > 0 && h.ticks-fs.orphans[0].orphaned > uint64(h.opts.FateTicks) {
		fs.orphans[0].end(Outcome{Err: ErrUnknown})
		fs.orphans = fs.orphans[1:]
	}
}

// abandon gives all of them up.
func (fs *flights) abandon() {
	for i := range fs.orphans {
		fs.orphans[i].end(Outcome{Err: ErrUnknown})
	}
	fs.orphans = nil
}
