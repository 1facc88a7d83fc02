// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ilion-db/ilion/internal/model/invariant"
)

// Apply is a group's work for the Applier. It contains either entries to apply or, if truncate is set, the index of a
// log truncation.
type Apply struct {
	g       *Group
	entries []*pb.Entry
	// message is the library's message that ends with these entries. It is nil if more entries of the message follow.
	message *pb.Message
	// members is the configuration after entries[0] if entries[0] is a membership change.
	members  *pb.ConfState
	where    []byte
	sequence uint64
	truncate uint64
}

// Applied is the Applier's report on an Apply.
type Applied struct {
	g           *Group
	message     *pb.Message
	index, term uint64
	// entries holds the applied entries in order.
	entries  []appliedEntry
	results  []any
	truncate uint64
}

type appliedEntry struct {
	index, term, sequence uint64
	commands              int
}

// Applier applies entries. It is not safe for concurrent use.
type Applier struct {
	machine  StateMachine
	commands [][]byte
	// entries and results hold the items of one call of Apply.
	entries []appliedEntry
	results []any
}

// NewApplier returns the applier of a node.
func NewApplier(m StateMachine) *Applier { return &Applier{machine: m} }

// Apply applies all items as one unsynced batch. It then syncs once if a log must be truncated or members have changed.
// The sync after a membership change prevents a crash from making replicas forget the removal of a destroyed replica.
// If Apply returns an error, the host must stop, because the state may contain a part of an entry.
func (a *Applier) Apply(items []Apply) ([]Applied, error) {
	out := make([]Applied, 0, len(items))
	// Each call allocates new memory, because the loop reads the returned slices. The capacity is based on the last
	// call.
	a.entries, a.results = make([]appliedEntry, 0, len(a.entries)), make([]any, 0, len(a.results))
	sync, synced := false, false
	for i := range items {
		it := &items[i]
		if it.truncate != 0 {
			sync = true
			out = append(out, Applied{g: it.g, truncate: it.truncate})
			continue
		}
		sync = sync || it.members != nil // required by RG11
		done, err := a.run(it)
		if err != nil {
			return nil, fmt.Errorf("apply group %d: %w", it.g.id, err)
		}
		out = append(out, done)
	}
	if err := a.machine.Commit(); err != nil {
		return nil, fmt.Errorf("commit applied entries: %w", err)
	}
	if sync { // required by RG4
		if err := a.machine.Sync(); err != nil {
			return nil, fmt.Errorf("sync before a truncation or after a change of members: %w", err)
		}
		synced = true
	}
	if invariant.Enabled {
		checkSynced(items, synced)
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

// applying tracks the committed entries of a group until they are applied.
type applying struct {
	g *Group
	// items is the number of items that the applier is processing.
	items int
	// held contains the MsgStorageApply messages that wait for a membership change. rest is the remainder of held[0].
	held []*pb.Message
	rest []*pb.Entry
}

// apply passes committed entries to the applier. A membership change is a barrier. It waits until all earlier entries
// have been applied, and all later entries wait for the change. The configuration and the state therefore change at the
// same index.
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

// pass passes the next parts of held messages to the applier.
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

// changeMembers applies a membership change to the library and to the routes.
func (y *applying) changeMembers(item *Apply) {
	g := y.g
	cc, sequence, where, err := decodeChange(item.entries[0])
	if err != nil {
		panic(fmt.Sprintf("raft: group %d: cannot decode the membership change in entry %d: %v", g.id,
			item.entries[0].GetIndex(), err))
	}
	g.lease.revoke() // the lease depends on a quorum of the old members
	g.addRoutes(where)
	g.membership.conf = g.raft.ApplyConfChange(cc)
	g.membership.prune()
	g.invariants.members++
	item.members, item.sequence = proto.CloneOf(g.membership.conf), sequence
	item.where = EncodeMembers(nil, g.membership.members())
}

// handleApplied processes the applier's report. It passes results to proposers and makes the new state visible to
// readers.
func (g *Group) handleApplied(a *Applied) {
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
		g.pending.finish(e, results[:e.commands])
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
	g.commits.applied()
	g.tail.maybeTruncate()
	g.host.mark(g)
}

func (g *Group) moveApplied(index, term uint64) {
	g.setApplied(index, term)
	g.fresh.refresh()
}
