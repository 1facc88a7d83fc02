// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Freeze has the partition take nothing any more, at the epoch that is named, and returns when that is applied here and
// durable: whatever is sent to it ends in *WrongRange then, from Frozen on. Only the leader can. Errors are those of
// Split.
func (r *Replica) Freeze(ctx context.Context, epoch uint64) error {
	now := r.state.Load()
	switch {
	case r.isMeta(), now.epoch != epoch:
		return r.wrongRange()
	case now.frozen != 0:
		return nil
	case r.Level() < splitLevel:
		return fmt.Errorf("partition %d has feature level %d, and merges need %d", r.id, r.Level(), splitLevel)
	}
	// As in Split: the log refuses nothing that was accepted, but after a change of leaders.
	r.ceding.Store(&now.span.Begin)
	defer r.ceding.Store(nil)
	r.host.latches.pass()
	_, err := r.order(ctx, &command.Entry{Kind: command.EntryFreeze, Epoch: epoch})
	return err
}

// Thaw makes an end to Freeze, and to a Freeze that is still on its way: the partition serves again, at the next epoch.
// Only the leader can, and only at the epoch that is named.
func (r *Replica) Thaw(ctx context.Context, epoch uint64) error {
	_, err := r.order(ctx, &command.Entry{Kind: command.EntryUnfreeze, Epoch: epoch})
	return err
}

// Merge has the partition take the span of its right neighbour, which all of that one's replicas have frozen, on nodes
// with a replica of this one that knows it for its neighbour. It returns when that is applied here. Nothing is copied.
// Only the leader can, and only at the epoch that is named. Errors are those of Split.
func (r *Replica) Merge(ctx context.Context, epoch uint64, m *command.Merge) error {
	if right := r.host.Replica(topology.PartitionID(m.Right)); right != nil {
		// What is stamped below the last of the other one's is before the entry in the log (P12).
		r.stamping.Lock()
		r.stamps.observe(right.stamps.last.Load())
		r.stamping.Unlock()
	}
	_, err := r.order(ctx, &command.Entry{Kind: command.EntryMerge, Epoch: epoch, Merge: *m})
	return err
}

// Frozen is the index of the log at which the partition was frozen, durably, as far as this replica has applied it; 0
// if it serves.
func (r *Replica) Frozen() uint64 { return r.state.Load().frozen }

// Absorber is the partition whose replica here may be yet to take the span of a replica here that is frozen, with its
// epoch; 0 if there is none, or that one is not frozen. As long as it may be, the frozen one must stay: its rows are
// those of the other then, and nobody else brings them.
func (h *Host) Absorber(id topology.PartitionID) (left topology.PartitionID, epoch uint64) {
	r := h.Replica(id)
	if r == nil || r.Frozen() == 0 {
		return 0, 0
	}
	own := r.state.Load()
	for _, o := range *h.replicas.Load() {
		if s := o.state.Load(); s.adjoins(own) {
			return o.id, s.epoch
		}
	}
	return 0, 0
}

// adjoins reports whether a state's span ends where another's begins.
func (s *state) adjoins(right *state) bool {
	return s.keys.Table != 0 && s.keys.Table == right.keys.Table && len(s.keys.End) > 0 &&
		bytes.Equal(s.keys.End, right.keys.Begin)
}

// asOf is a partition's meta with what was applied before the entry under way, and with what that entry has changed
// already. It is stored at once: when the entry is applied again, after a crash or on top of a snapshot, that begins
// after the command that is applied now. What was refused before that command must not be taken after it.
func (a *machine) asOf(r *Replica, next *progress, index uint64) keys.Meta {
	m := r.ahead.meta
	m.Applied, m.Term = r.ahead.applied, r.ahead.term
	m.MaxTimestamp, m.SchemaVersion, m.Feature, m.Swept = next.stamp, next.schema, next.level, next.swept
	m.Begun = keys.Begun{Index: index, Commands: a.commands}
	return m
}

// freeze applies a.entry, as split does: what was applied before it is durable with it.
func (a *machine) freeze(r *Replica, next *progress, index uint64) (result any, err error) {
	switch m := &r.ahead.meta; {
	case r.isMeta() || a.entry.Epoch != m.Epoch:
		return r.wrongRange(), nil
	case m.Frozen != 0:
		return nil, nil // it was proposed twice
	}
	if err := a.Commit(); err != nil {
		return nil, err
	}
	m := a.asOf(r, next, index)
	m.Frozen = index
	return nil, a.host.restate(r, &m)
}

// thaw applies a.entry. The epoch grows also where nothing is frozen: a freeze that comes late is refused.
func (a *machine) thaw(r *Replica, next *progress, index uint64) (result any, err error) {
	if r.isMeta() || a.entry.Epoch != r.ahead.meta.Epoch {
		return r.wrongRange(), nil
	}
	if err := a.Commit(); err != nil {
		return nil, err
	}
	m := a.asOf(r, next, index)
	m.Frozen = 0
	m.Epoch++
	return nil, a.host.restate(r, &m)
}

// restate stores a meta durably and makes it the replica's.
func (h *Host) restate(r *Replica, m *keys.Meta) error {
	s, err := stateOf(m)
	if err != nil {
		return err
	}
	b := h.store.NewBatch()
	defer b.Close()
	b.PutMeta(m)
	if err := errors.Join(b.CommitLogged(), h.store.Sync()); err != nil {
		return err
	}
	r.ahead.meta, r.ahead.changed = *m, false
	r.state.Store(s)
	return nil
}

// errNotFrozen says that a node has not kept what a merge is made of: it must not go on without.
var errNotFrozen = errors.New("the right partition of a merge is not as it was frozen")

// merge applies a.entry, of which index is the entry's in the log. One durable batch has the wider partition and ends
// the other, whose rows are here: it was frozen on this node before the entry was proposed, and is kept since.
func (a *machine) merge(r *Replica, next *progress, index uint64) (result any, err error) {
	e := a.entry.Merge
	if r.isMeta() || a.outdated(r) {
		return r.wrongRange(), nil
	}
	right := a.host.Replica(topology.PartitionID(e.Right))
	if right == nil {
		return nil, fmt.Errorf("merge partition %d: %d has no replica here: %w", r.id, e.Right, errNotFrozen)
	}
	right.installing.Lock() // a snapshot of it, of the same state, may be about to take the place of its rows
	defer right.installing.Unlock()
	if m := &right.ahead.meta; m.Frozen != e.Frozen || m.Epoch != e.RightEpoch ||
		!r.state.Load().adjoins(right.state.Load()) {
		return nil, fmt.Errorf("merge partition %d: %d is %s at epoch %d, frozen at %d: %w", r.id, e.Right,
			right.state.Load().span, m.Epoch, m.Frozen, errNotFrozen)
	}
	if err := a.Commit(); err != nil {
		return nil, err
	}
	o := &right.ahead
	next.stamp, next.schema = max(next.stamp, o.stamp), max(next.schema, o.schema)
	next.level, next.swept = max(next.level, o.level), max(next.swept, o.swept)
	m := a.asOf(r, next, index)
	m.Span.End = o.meta.Span.End
	m.Epoch = max(m.Epoch, o.meta.Epoch) + 1
	m.Absorbed = absorbed(m.Absorbed, &o.meta, index)
	if err := a.host.absorb(r, &m, right); err != nil {
		return nil, fmt.Errorf("merge partition %d: %w", r.id, err)
	}
	return nil, nil
}

// absorbed adds a partition, and those that it had taken before, to the list of those that another one has taken.
func absorbed(list []keys.Absorbed, right *keys.Meta, at uint64) []keys.Absorbed {
	list = slices.Clone(list)
	for _, a := range right.Absorbed {
		a.At = at
		list = append(list, a)
	}
	list = append(list, keys.Absorbed{Partition: right.Partition, Index: right.Frozen, Epoch: right.Epoch, At: at})
	return list[max(0, len(list)-keys.AbsorbedMax):]
}

// absorb stores the wider meta of a partition and the end of the one that it takes the span of, durably in one batch.
func (h *Host) absorb(r *Replica, m *keys.Meta, right *Replica) error {
	h.listing.Lock()
	defer h.listing.Unlock()
	wide, err := stateOf(m)
	if err != nil {
		return err
	}
	b := h.store.NewBatch()
	defer b.Close()
	b.PutMeta(m)
	b.DeleteMeta(uint64(right.id))
	b.DeleteReplica(uint64(right.id))
	if err := errors.Join(b.CommitLogged(), h.store.Sync()); err != nil {
		return err
	}
	r.recent.join(&right.recent)
	r.budget.Absorb(&right.budget)
	r.wide.Store(max(r.wide.Load(), right.wide.Load()))
	h.bury(right)
	h.seqs.end(right)
	r.ahead.meta, r.ahead.changed = *m, false
	r.stamps.observe(m.MaxTimestamp) // before anybody can write to the other span
	r.raiseSchema(m.SchemaVersion)
	r.state.Store(wide)
	return nil
}

// bury takes replicas whose spans others take out of the host's map. The caller holds listing, and ends their
// sequencers when their state is gone. What is still on its way to the machine is refused.
func (h *Host) bury(dead ...*Replica) {
	replicas := h.copyReplicas(0)
	for _, r := range dead {
		h.buried.Store(r.id, r)
		r.dead.Store(true)
		delete(replicas, r.id)
	}
	h.replicas.Store(&replicas)
	for _, r := range dead {
		r.shut()
	}
}

// buriedReplica is a replica whose span another one has taken, while its entries may still come; nil if it is none.
func (h *Host) buriedReplica(id topology.PartitionID) *Replica {
	if r, ok := h.buried.Load(id); ok {
		return r.(*Replica)
	}
	return nil
}

// dropAbsorbed removes what is left of partitions that others here have taken the spans of: an installation ends
// between those two. It returns the metas that stay.
func (h *Host) dropAbsorbed(metas []keys.Meta) ([]keys.Meta, error) {
	gone := map[uint64]bool{}
	for i := range metas {
		for _, a := range metas[i].Absorbed {
			gone[a.Partition] = true
		}
	}
	stay := slices.DeleteFunc(slices.Clone(metas), func(m keys.Meta) bool { return gone[m.Partition] })
	if len(stay) == len(metas) {
		return metas, nil
	}
	var ids []uint64
	for i := range metas {
		if id := metas[i].Partition; gone[id] {
			ids = append(ids, id)
		}
	}
	return stay, h.removeRecords(ids)
}

// removeRecords removes metas and their places in the registry, durably.
func (h *Host) removeRecords(ids []uint64) error {
	b := h.store.NewBatch()
	defer b.Close()
	for _, id := range ids {
		b.DeleteMeta(id)
		b.DeleteReplica(id)
	}
	return errors.Join(b.CommitLogged(), h.store.Sync())
}
