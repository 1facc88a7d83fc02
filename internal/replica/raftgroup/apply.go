// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Apply is one group's entries for the Applier; or, with Truncate, the wish to cut its log at an index.
type Apply struct {
	g       *Group
	entries []*pb.Entry
	// message is the library's, whose last entries these are; nil if more of it follow.
	message *pb.Message
	// members is the configuration that entries[0], a change of members, leads to.
	members  *pb.ConfState
	where    []byte
	sequence uint64
	truncate uint64
}

// Applied is what the Applier reports.
type Applied struct {
	g           *Group
	message     *pb.Message
	index, term uint64
	// results of entries, in order.
	entries  []appliedEntry
	results  []any
	truncate uint64
}

type appliedEntry struct {
	index, term, sequence uint64
	commands              int
}

// Applier applies entries. It belongs to one goroutine.
type Applier struct {
	machine  StateMachine
	commands [][]byte
}

// NewApplier returns the applier of a node.
func NewApplier(m StateMachine) *Applier { return &Applier{machine: m} }

// Apply applies what came since the last call as one unsynced batch, then syncs once if a log is to be cut, or members
// have changed: a replica that was removed is destroyed once that is known, and without it those that stay could not
// learn again that it is none of them. After an error the host must not go on: the state may hold a part of an entry.
func (a *Applier) Apply(items []Apply) ([]Applied, error) {
	out := make([]Applied, 0, len(items))
	sync := false
	for i := range items {
		it := &items[i]
		if it.truncate != 0 {
			sync = true
			out = append(out, Applied{g: it.g, truncate: it.truncate})
			continue
		}
		sync = sync || it.members != nil // (G11)
		done, err := a.run(it)
		if err != nil {
			return nil, fmt.Errorf("apply group %d: %w", it.g.id, err)
		}
		out = append(out, done)
	}
	if err := a.machine.Commit(); err != nil {
		return nil, fmt.Errorf("commit applied entries: %w", err)
	}
	if sync { // (G4)
		if err := a.machine.Sync(); err != nil {
			return nil, fmt.Errorf("sync before a truncation or after a change of members: %w", err)
		}
	}
	return out, nil
}

// run applies one item to the open batch.
func (a *Applier) run(it *Apply) (Applied, error) {
	done := Applied{g: it.g, message: it.message, entries: make([]appliedEntry, 0, len(it.entries))}
	for _, e := range it.entries {
		index, term := e.GetIndex(), e.GetTerm()
		if index != it.g.appliedBy+1 {
			return done, fmt.Errorf("entry %d, applied %d: %w", index, it.g.appliedBy, ErrGap)
		}
		before := len(done.results)
		sequence := it.sequence
		var err error
		if it.members != nil {
			err = a.machine.Members(it.g.id, index, term, it.members, it.where)
		} else {
			if sequence, a.commands, err = decodeCommands(a.commands[:0], e.GetData()); err == nil {
				done.results, err = a.machine.Apply(it.g.id, index, term, a.commands, done.results)
			}
		}
		if err != nil {
			return done, fmt.Errorf("entry %d: %w", index, err)
		}
		done.entries = append(done.entries, appliedEntry{index, term, sequence, len(done.results) - before})
		it.g.appliedBy, done.index, done.term = index, index, term
	}
	clear(a.commands)
	return done, nil
}

// apply passes on committed entries. A change of members is a barrier: it waits until everything before it is applied,
// and what comes after waits for it, so that the configuration and the state change at the same index.
func (h *Host) apply(g *Group, m *pb.Message) {
	if g.barrier != nil || len(g.held) > 0 {
		g.held = append(g.held, m)
		return
	}
	if firstChange(m.GetEntries()) < 0 {
		g.applying++
		h.work.Applies = append(h.work.Applies, Apply{g: g, entries: m.GetEntries(), message: m})
		return
	}
	g.held = append(g.held, m)
	g.barrier = m.GetEntries()
	h.passBarrier(g)
}

func firstChange(entries []*pb.Entry) int {
	for i, e := range entries {
		if e.GetType() != pb.EntryNormal {
			return i
		}
	}
	return -1
}

// passBarrier goes on with held messages, one piece at a time. held[0] is the message that barrier is the rest of.
func (h *Host) passBarrier(g *Group) {
	for g.barrier != nil && g.applying == 0 {
		n := firstChange(g.barrier)
		item := Apply{g: g}
		switch {
		case n == 0:
			item.entries = g.barrier[:1]
			h.changeMembers(g, &item)
		case n > 0:
			item.entries = g.barrier[:n]
		default:
			item.entries = g.barrier
		}
		g.barrier = g.barrier[len(item.entries):]
		if len(g.barrier) == 0 {
			item.message, g.barrier = g.held[0], nil
			g.held = g.held[1:]
		}
		g.applying++
		h.work.Applies = append(h.work.Applies, item)
	}
	for g.barrier == nil && len(g.held) > 0 {
		m := g.held[0]
		if firstChange(m.GetEntries()) >= 0 {
			g.barrier = m.GetEntries()
			h.passBarrier(g)
			return
		}
		g.held = g.held[1:]
		g.applying++
		h.work.Applies = append(h.work.Applies, Apply{g: g, entries: m.GetEntries(), message: m})
	}
}

// changeMembers makes the change known to the library and to the routes.
func (h *Host) changeMembers(g *Group, item *Apply) {
	cc, sequence, where, err := decodeChange(item.entries[0])
	if err != nil {
		panic(fmt.Sprintf("raft: group %d, entry %d changes members and cannot be read: %v", g.id, item.entries[0].GetIndex(), err))
	}
	g.revokeLease() // it rests on a quorum of the old members
	g.addRoutes(where)
	g.conf = g.raft.ApplyConfChange(cc)
	g.pruneRoutes()
	item.members, item.sequence = cloneConf(g.conf), sequence
	item.where = EncodeMembers(nil, g.members())
	if h.opts.Events.MembersChanged != nil {
		h.opts.Events.MembersChanged(g.id, item.entries[0].GetIndex())
	}
}

// applied takes what the applier did: proposers hear of it, readers see it.
func (h *Host) applied(a *Applied) {
	g := a.g
	if a.truncate != 0 {
		h.truncate(g, a.truncate)
		return
	}
	g.applying--
	if g.closed {
		g.checkIdle()
		return
	}
	results := a.results
	for i := range a.entries {
		e := &a.entries[i]
		g.finish(e, results[:e.commands])
		results = results[e.commands:]
	}
	g.moveApplied(a.index, a.term)
	if a.message != nil {
		for _, m := range a.message.GetResponses() {
			_ = g.raft.Step(m)
		}
	}
	h.passBarrier(g)
	h.tryInstall(g)
	h.serveReads(g)
	h.tellApplied(g)
	h.considerTruncation(g)
	h.mark(g)
}

func (g *Group) moveApplied(index, term uint64) {
	g.applied, g.appliedTerm = index, term
	g.appliedShown.Store(index)
	g.refresh()
	if g.leading && term == g.term {
		g.evaluating.Store(term)
	}
}

// considerTruncation asks for a sync of the state machine when the log is long; behind it the log is cut.
func (h *Host) considerTruncation(g *Group) {
	o := &h.opts
	keep := o.TruncateKeep
	if g.tailBytes >= o.TruncateBytes {
		keep = min(keep, (g.applied-g.cut)/2) // large entries: half of them stay
	}
	if g.cutting || g.applied < g.cut+o.TruncateEntries && g.tailBytes < o.TruncateBytes || g.applied < g.cut+keep+1 {
		return
	}
	g.cutting = true
	h.work.Applies = append(h.work.Applies, Apply{g: g, truncate: g.applied - keep})
}

// truncate hands the cut to the log writer. What receivers of snapshots under way will ask for next stays.
func (h *Host) truncate(g *Group, index uint64) {
	g.cutting = false
	if g.closed || len(g.shipping) > 0 || g.install || len(g.appends) > 0 || index <= g.cut || index > g.applied {
		return
	}
	term, err := g.log.Term(index)
	if err != nil {
		return // the log was reset meanwhile
	}
	g.cutting = true
	h.work.Appends = append(h.work.Appends, Append{g: g, truncate: index, term: term})
}
