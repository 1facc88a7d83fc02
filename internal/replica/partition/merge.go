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

// Freeze makes the partition reject all commands, if its epoch is the given epoch. When Freeze returns, the freeze is
// durable on this node, and all later commands get *WrongRange. Only the leader can freeze the partition. The errors
// are the same as for Split.
func (c Control) Freeze(ctx context.Context, epoch uint64) error {
	r := c.replica
	now := r.state.Load()
	switch {
	case r.isMeta(), now.epoch != epoch:
		return r.wrongRange()
	case now.frozen != 0:
		return nil
	case r.Level() < splitLevel:
		return fmt.Errorf("partition %d has feature level %d, but merges require %d", r.id, r.Level(), splitLevel)
	}
	// As in Split, the log rejects accepted commands only after a leader change.
	r.rejectFrom.Store(&now.span.Begin)
	defer r.rejectFrom.Store(nil)
	r.host.latches.awaitHolders()
	_, err := c.proposeAndWait(ctx, &command.Entry{Kind: command.EntryFreeze, Epoch: epoch})
	return err
}

// Unfreeze ends a Freeze, including a Freeze that has not been applied yet. The partition then serves requests at the
// next epoch. Only the leader can unfreeze the partition, and only at the given epoch.
func (c Control) Unfreeze(ctx context.Context, epoch uint64) error {
	_, err := c.proposeAndWait(ctx, &command.Entry{Kind: command.EntryUnfreeze, Epoch: epoch})
	return err
}

// Merge makes the partition take over the span of its right neighbor without copying data. All replicas of the neighbor
// must be frozen, and their nodes must have an adjacent replica of this partition. Merge returns when the merge has
// been applied on this node. Only the leader can merge, and only at the given epoch. The errors are the same as for
// Split.
func (c Control) Merge(ctx context.Context, epoch uint64, m *command.Merge) error {
	r := c.replica
	if right := r.host.Replica(topology.PartitionID(m.Right)); right != nil {
		// Timestamps below the last timestamp of the neighbor precede the entry in the log (P12).
		r.stamping.Lock()
		r.stamps.observe(right.stamps.last.Load())
		r.stamping.Unlock()
	}
	_, err := c.proposeAndWait(ctx, &command.Entry{Kind: command.EntryMerge, Epoch: epoch, Merge: *m})
	return err
}

// Absorber returns the partition whose local replica may still take over the span of a frozen local replica, and the
// epoch of this partition. It returns 0 if no such partition exists or if the replica is not frozen. If Absorber
// returns a partition, the frozen replica must not be dropped, because a merge does not copy its rows.
func (m *replicaMap) Absorber(id topology.PartitionID) (left topology.PartitionID, epoch uint64) {
	r := m.Replica(id)
	if r == nil || r.Frozen() == 0 {
		return 0, 0
	}
	own := r.state.Load()
	for _, o := range *m.replicas.Load() {
		if s := o.state.Load(); s.adjoins(own) {
			return o.id, s.epoch
		}
	}
	return 0, 0
}

// adjoins reports whether the span of right begins at the end of this span.
func (s *state) adjoins(right *state) bool {
	return s.keys.Table != 0 && s.keys.Table == right.keys.Table && len(s.keys.End) > 0 &&
		bytes.Equal(s.keys.End, right.keys.Begin)
}

// asOf returns a partition's meta with the index before the current entry and the previous changes of this entry. The
// caller stores the meta immediately. If the entry is applied again after a crash or a snapshot, it resumes after the
// current command. A command that was rejected before the crash is therefore not accepted afterward.
func (a *machine) asOf(r *Replica, next *progress, index uint64) keys.Meta {
	m := r.ahead.meta
	m.Applied, m.Term = r.ahead.applied, r.ahead.term
	m.MaxTimestamp, m.SchemaVersion, m.Feature, m.Swept = next.stamp, next.schema, next.level, next.swept
	m.Begun = keys.Begun{Index: index, Commands: a.commands}
	return m
}

// freeze applies a.entry. As in split, all previous entries become durable with this entry.
func (a *machine) freeze(r *Replica, next *progress, index uint64) (result any, err error) {
	switch m := &r.ahead.meta; {
	case r.isMeta() || a.entry.Epoch != m.Epoch:
		return r.wrongRange(), nil
	case m.Frozen != 0:
		return nil, nil // the freeze was proposed twice
	}
	if err := a.Commit(); err != nil {
		return nil, err
	}
	m := a.asOf(r, next, index)
	m.Frozen = index
	return nil, a.host.replaceMeta(r, &m)
}

// unfreeze applies a.entry. It increments the epoch even if the partition is not frozen, so that a late freeze is
// rejected.
func (a *machine) unfreeze(r *Replica, next *progress, index uint64) (result any, err error) {
	if r.isMeta() || a.entry.Epoch != r.ahead.meta.Epoch {
		return r.wrongRange(), nil
	}
	if err := a.Commit(); err != nil {
		return nil, err
	}
	m := a.asOf(r, next, index)
	m.Frozen = 0
	m.Epoch++
	return nil, a.host.replaceMeta(r, &m)
}

// replaceMeta durably stores a meta and updates the replica.
func (h *Host) replaceMeta(r *Replica, m *keys.Meta) error {
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

// errNotFrozen means that the right partition of a merge is not frozen on this node. The node must stop.
var errNotFrozen = errors.New("the right partition of the merge is not in its frozen state")

// merge applies a.entry. index is the log index of the entry. One durable batch stores the wider partition and removes
// the neighbor. The neighbor's rows are on this node, because the neighbor was frozen on this node before the entry was
// proposed.
func (a *machine) merge(r *Replica, next *progress, index uint64) (result any, err error) {
	e := a.entry.Merge
	if r.isMeta() || a.outdated(r) {
		return r.wrongRange(), nil
	}
	right := a.host.Replica(topology.PartitionID(e.Right))
	if right == nil {
		return nil, fmt.Errorf("merge partition %d: this node has no replica of %d: %w", r.id, e.Right, errNotFrozen)
	}
	right.installing.Lock() // a snapshot of the same state may replace its rows
	defer right.installing.Unlock()
	if m := &right.ahead.meta; m.Frozen != e.Frozen || m.Epoch != e.RightEpoch ||
		!r.state.Load().adjoins(right.state.Load()) {
		return nil, fmt.Errorf("merge partition %d: partition %d is %s at epoch %d, but it was frozen at %d: %w", r.id,
			e.Right,
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

// absorbed adds a partition and its absorbed partitions to a list of absorbed partitions.
func absorbed(list []keys.Absorbed, right *keys.Meta, at uint64) []keys.Absorbed {
	list = slices.Clone(list)
	for _, a := range right.Absorbed {
		a.At = at
		list = append(list, a)
	}
	list = append(list, keys.Absorbed{Partition: right.Partition, Index: right.Frozen, Epoch: right.Epoch, At: at})
	return list[max(0, len(list)-keys.AbsorbedMax):]
}

// absorb durably stores the wider meta of a partition and removes the absorbed partition in one batch.
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
	r.dedupe.merge(&right.dedupe)
	r.throughput.budget.Absorb(&right.throughput.budget)
	r.wholeBatch.Store(max(r.wholeBatch.Load(), right.wholeBatch.Load()))
	h.retire(right)
	h.seqs.discard(right)
	r.ahead.meta, r.ahead.changed = *m, false
	r.stamps.observe(m.MaxTimestamp) // this must precede writes to the absorbed span
	r.schema.raise(m.SchemaVersion)
	r.state.Store(wide)
	return nil
}

// dropAbsorbed removes the metas of partitions that other partitions on this node have absorbed. Such metas remain
// after a crash during an installation. dropAbsorbed returns the other metas.
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

// removeRecords durably removes metas and registry records.
func (h *Host) removeRecords(ids []uint64) error {
	b := h.store.NewBatch()
	defer b.Close()
	for _, id := range ids {
		b.DeleteMeta(id)
		b.DeleteReplica(id)
	}
	return errors.Join(b.CommitLogged(), h.store.Sync())
}
