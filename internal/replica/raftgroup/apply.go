// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ilion-db/ilion/internal/model/invariant"
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
	// entries and results are of the items of one Apply: many small ones share their memory.
	entries []appliedEntry
	results []any
}

// NewApplier returns the applier of a node.
func NewApplier(m StateMachine) *Applier { return &Applier{machine: m} }

// Apply applies what came since the last call as one unsynced batch, then syncs once if a log is to be cut, or members
// have changed: a replica that was removed is destroyed once that is known, and without it those that stay could not
// learn again that it is none of them. After an error the host must not go on: the state may hold a part of an entry.
func (a *Applier) Apply(items []Apply) ([]Applied, error) {
	out := make([]Applied, 0, len(items))
	// The loop reads what was returned, so each Apply has memory of its own, for about as much as the last one needed.
	a.entries, a.results = make([]appliedEntry, 0, len(a.entries)), make([]any, 0, len(a.results))
	sync, synced := false, false
	for i := range items {
		it := &items[i]
		if it.truncate != 0 {
			sync = true
			out = append(out, Applied{g: it.g, truncate: it.truncate})
			continue
		}
		sync = sync || it.members != nil // (RG11)
		done, err := a.run(it)
		if err != nil {
			return nil, fmt.Errorf("apply group %d: %w", it.g.id, err)
		}
		out = append(out, done)
	}
	if err := a.machine.Commit(); err != nil {
		return nil, fmt.Errorf("commit applied entries: %w", err)
	}
	if sync { // (RG4)
		if err := a.machine.Sync(); err != nil {
			return nil, fmt.Errorf("sync before a truncation or after a change of members: %w", err)
		}
		synced = true
	}
	if invariant.Enabled {
		kept(items, synced)
	}
	return out, nil
}

// run applies one item to the open batch.
func (a *Applier) run(it *Apply) (Applied, error) {
	done := Applied{g: it.g, message: it.message}
	entries, results := len(a.entries), len(a.results)
	for _, e := range it.entries {
		index, term := e.GetIndex(), e.GetTerm()
		if index != it.g.appliedBy+1 {
			return done, fmt.Errorf("entry %d, applied %d: %w", index, it.g.appliedBy, ErrGap)
		}
		before := len(a.results)
		sequence := it.sequence
		var err error
		if it.members != nil {
			err = a.machine.Members(it.g.id, index, term, it.members, it.where)
		} else {
			if sequence, a.commands, err = decodeCommands(a.commands[:0], e.GetData()); err == nil {
				a.results, err = a.machine.Apply(it.g.id, index, term, a.commands, a.results)
			}
		}
		if err != nil {
			return done, fmt.Errorf("entry %d: %w", index, err)
		}
		a.entries = append(a.entries, appliedEntry{index, term, sequence, len(a.results) - before})
		it.g.appliedBy, done.index, done.term = index, index, term
	}
	clear(a.commands)
	done.entries, done.results = a.entries[entries:], a.results[results:]
	return done, nil
}

// applying are the committed entries of a group that are with the applier, and those that have to wait.
type applying struct {
	g *Group
	// items counts those with the applier.
	items int
	// held are MsgStorageApply that wait for a change of members; rest is what is left of the one in which the change
	// is.
	held []*pb.Message
	rest []*pb.Entry
}

// apply passes on committed entries. A change of members is a barrier: it waits until everything before it is applied,
// and everything after waits for it, so that the configuration and the state change at the same index.
func (y *applying) apply(m *pb.Message) {
	g, h := y.g, y.g.host
	if y.rest != nil || len(y.held) > 0 {
		y.held = append(y.held, m)
		return
	}
	if firstChange(m.GetEntries()) < 0 {
		y.items++
		h.work.Applies = append(h.work.Applies, Apply{g: g, entries: m.GetEntries(), message: m})
		return
	}
	y.held = append(y.held, m)
	y.rest = m.GetEntries()
	y.pass()
}

func firstChange(entries []*pb.Entry) int {
	for i, e := range entries {
		if e.GetType() != pb.EntryNormal {
			return i
		}
	}
	return -1
}

// pass goes on with held messages, one piece at a time. held[0] is the message that rest is left of.
func (y *applying) pass() {
	g, h := y.g, y.g.host
	for y.rest != nil && y.items == 0 {
		n := firstChange(y.rest)
		item := Apply{g: g}
		switch {
		case n == 0:
			item.entries = y.rest[:1]
			y.changeMembers(&item)
		case n > 0:
			item.entries = y.rest[:n]
		default:
			item.entries = y.rest
		}
		y.rest = y.rest[len(item.entries):]
		if len(y.rest) == 0 {
			item.message, y.rest = y.held[0], nil
			y.held = y.held[1:]
		}
		y.items++
		h.work.Applies = append(h.work.Applies, item)
	}
	for y.rest == nil && len(y.held) > 0 {
		m := y.held[0]
		if firstChange(m.GetEntries()) >= 0 {
			y.rest = m.GetEntries()
			y.pass()
			return
		}
		y.held = y.held[1:]
		y.items++
		h.work.Applies = append(h.work.Applies, Apply{g: g, entries: m.GetEntries(), message: m})
	}
}

// changeMembers makes the change known to the library and to the routes.
func (y *applying) changeMembers(item *Apply) {
	g, h := y.g, y.g.host
	cc, sequence, where, err := decodeChange(item.entries[0])
	if err != nil {
		panic(fmt.Sprintf("raft: group %d, entry %d changes members and cannot be read: %v", g.id,
			item.entries[0].GetIndex(), err))
	}
	g.lease.revoke() // it rests on a quorum of the old members
	g.addRoutes(where)
	g.conf = g.raft.ApplyConfChange(cc)
	g.pruneRoutes()
	g.laws.members++
	item.members, item.sequence = proto.CloneOf(g.conf), sequence
	item.where = EncodeMembers(nil, g.members())
	if h.opts.Events.MembersChanged != nil {
		h.opts.Events.MembersChanged(g.id, item.entries[0].GetIndex())
	}
}

// applied takes the applier's report: proposers hear their results, and readers see the new state.
func (h *Host) applied(a *Applied) {
	g := a.g
	if a.truncate != 0 {
		g.tail.truncate(a.truncate)
		return
	}
	g.applying.items--
	if g.closed {
		g.checkIdle()
		return
	}
	results := a.results
	for i := range a.entries {
		e := &a.entries[i]
		g.flights.finish(e, results[:e.commands])
		results = results[e.commands:]
	}
	g.moveApplied(a.index, a.term)
	if a.message != nil {
		for _, m := range a.message.GetResponses() {
			_ = g.raft.Step(m)
		}
	}
	g.applying.pass()
	g.snapshots.tryInstall()
	g.reads.serve()
	g.news.applied()
	g.tail.consider()
	h.mark(g)
}

func (g *Group) moveApplied(index, term uint64) {
	g.applied, g.appliedTerm = index, term
	g.appliedShown.Store(index)
	g.fresh.refresh()
	if g.leading && term == g.term {
		g.evaluating.Store(term)
	}
}
