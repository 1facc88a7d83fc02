// SPDX-License-Identifier: Apache-2.0

package raftgroup

import pb "go.etcd.io/raft/v3/raftpb"

// A leader that steps down does not know whether what it has in its log will be committed. As long as the replica lives
// it finds out: each index is filled by one committed entry, on every replica the same. If that is the one proposed,
// the proposal has succeeded; if it is of another term, or if a newer term was committed before that index, it is
// nowhere and never will be, because terms do not fall along a log. Only a snapshot over the index, the end of the
// replica, or its patience leaves the outcome open.

// fate of a flight.
type fate uint8

const (
	fateOpen fate = iota
	fateDone
	fateReplaced
	fateUnknown
)

// fate says what a committed entry tells of a flight; entries come in order.
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

// number gives flights the indexes of their entries, which the library has just put into its log: all that was proposed
// since the last Ready is in this one. A change of members that the library refuses it replaces by an empty entry: it
// is nowhere.
func (g *Group) number(entries []*pb.Entry) {
	next := len(g.inflight)
	for next > 0 && g.inflight[next-1].index == 0 {
		next--
	}
	if next == len(g.inflight) || len(entries) == 0 {
		return
	}
	for _, e := range entries {
		sequence := sequenceOf(e)
		for i := next; sequence != 0 && i < len(g.inflight); i++ {
			if f := &g.inflight[i]; f.sequence == sequence && f.term == e.GetTerm() {
				f.index = e.GetIndex()
				break
			}
		}
	}
	left := g.inflight[:next]
	for _, f := range g.inflight[next:] {
		if f.index == 0 && f.members != nil {
			g.changing = false
			f.end(Outcome{Err: ErrMembersBusy})
			continue
		}
		left = append(left, f)
	}
	g.inflight = left
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
func (g *Group) finish(e *appliedEntry, results []any) {
	for len(g.inflight) > 0 {
		f := &g.inflight[0]
		what := f.fate(e.index, e.term)
		if what == fateOpen {
			break
		}
		if f.members != nil {
			g.changing = false
		}
		g.host.landed(f)
		f.conclude(what, e, results)
		g.inflight[0] = flight{}
		g.inflight = g.inflight[1:]
	}
	if len(g.orphans) > 0 {
		g.finishOrphans(e, results)
	}
}

func (g *Group) finishOrphans(e *appliedEntry, results []any) {
	left := g.orphans[:0]
	for _, f := range g.orphans {
		if what := f.fate(e.index, e.term); what == fateOpen {
			left = append(left, f)
		} else {
			f.conclude(what, e, results)
		}
	}
	clear(g.orphans[len(left):])
	g.orphans = left
}

// conclude tells the proposers.
func (f *flight) conclude(what fate, e *appliedEntry, results []any) {
	switch what {
	case fateReplaced:
		f.end(Outcome{Err: ErrReplaced})
	case fateUnknown:
		f.end(Outcome{Err: ErrUnknown})
	default:
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

// passed takes note of a snapshot: entries up to its index are applied, and what came of them is not known.
func (g *Group) passed(index, term uint64) {
	left := g.orphans[:0]
	for _, f := range g.orphans {
		switch what := f.fate(index, term); what {
		case fateOpen:
			left = append(left, f)
		case fateReplaced:
			f.end(Outcome{Err: ErrReplaced})
		default:
			f.end(Outcome{Err: ErrUnknown}) // it may be in the snapshot; its result is not
		}
	}
	clear(g.orphans[len(left):])
	g.orphans = left
}

// orphan keeps what is in flight when leadership is lost. Without an index nothing can be found out.
func (g *Group) orphan(h *Host) {
	for i := range g.inflight {
		f := &g.inflight[i]
		h.landed(f)
		f.orphaned = h.ticks
		if f.index == 0 {
			f.end(Outcome{Err: ErrUnknown})
		} else {
			g.orphans = append(g.orphans, *f)
		}
	}
	g.inflight = nil
	for len(g.orphans) > h.opts.FateEntries {
		g.orphans[0].end(Outcome{Err: ErrUnknown})
		g.orphans = g.orphans[1:]
	}
}

// tickFates ends the waiting that has lasted too long.
func (h *Host) tickFates(g *Group) {
	for len(g.orphans) > 0 && h.ticks-g.orphans[0].orphaned > uint64(h.opts.FateTicks) {
		g.orphans[0].end(Outcome{Err: ErrUnknown})
		g.orphans = g.orphans[1:]
	}
}

// abandon ends all waiting.
func (g *Group) abandon() {
	for i := range g.orphans {
		g.orphans[i].end(Outcome{Err: ErrUnknown})
	}
	g.orphans = nil
}
