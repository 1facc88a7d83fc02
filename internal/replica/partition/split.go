// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// splitLevel is the minimum feature level of a log that contains an EntrySplit.
const splitLevel feature.Level = 2

// Split creates a new partition that takes over the span from s.At without copying data. It returns when the split has
// been applied on this node. Commands for the new span then get *WrongRange. Only the leader can split the partition,
// and only at the given epoch. Split sets s.Leader. The errors are the same as for Write. After ErrUncertain, the split
// may still be applied unless the epoch changes first.
func (c Control) Split(ctx context.Context, epoch uint64, s *command.Split) error {
	r := c.replica
	if r.isMeta() {
		return r.wrongRange()
	}
	if r.Level() < splitLevel {
		return fmt.Errorf("partition %d has feature level %d, but splits require %d", r.id, r.Level(), splitLevel)
	}
	if now := r.state.Load(); now.epoch != epoch || !inside(now.keys, s.At) {
		return r.wrongRange()
	}
	at, err := keys.ParseBoundary(r.state.Load().keys.Table, s.At)
	if err != nil {
		return err
	}
	// All accepted commands precede the split in the log, and later commands are rejected before they are proposed. The
	// log rejects commands only after a leader change.
	r.rejectFrom.Store(&at)
	defer r.rejectFrom.Store(nil)
	r.host.latches.awaitHolders()
	e := &command.Entry{Kind: command.EntrySplit, Epoch: epoch, Split: *s}
	if cluster := r.host.opts.Cluster; cluster != nil {
		e.Split.Leader = cluster.Node
	}
	_, err = c.proposeAndWait(ctx, e)
	return err
}

// inside reports whether a boundary divides a span into two non-empty spans.
func inside(s keys.Span, at []byte) bool {
	return bytes.Compare(at, s.Begin) > 0 && (len(s.End) == 0 || bytes.Compare(at, s.End) < 0)
}

// split applies a.entry. index is the log index of the entry. split first commits all previous entries. If the entry is
// applied again after a crash, split has no effect. The child is durable before any later entry, and the replica of the
// child exists before the entry is acknowledged.
//
// A split does not move rows, because keys do not contain a partition. A reader that has loaded the previous state of
// the replica may therefore read rows of the child. Readers must check the state again after the read.
func (a *machine) split(r *Replica, next *progress, index uint64) (result any, err error) {
	s, m := &a.entry.Split, &r.ahead.meta
	if slices.ContainsFunc(m.Children, func(c keys.Child) bool { return c.Partition == s.Child && c.Index == index }) {
		return nil, nil
	}
	if r.isMeta() || a.outdated(r) || !inside(m.Span, s.At) {
		return r.wrongRange(), nil
	}
	if err := a.Commit(); err != nil {
		return nil, err
	}
	left, right := a.halves(r, next, index)
	child, err := a.host.divide(r, left, right)
	if err != nil {
		return nil, fmt.Errorf("split partition %d: %w", r.id, err)
	}
	r.ahead.meta, r.ahead.changed = *left, false
	if child == nil {
		return nil, nil
	}
	a.host.seqs.openChild(child, a.entry.Split.Leader)
	return nil, nil
}

// halves returns the metas of a partition and its child after a split. Both metas include the effects of previous
// commands in the same entry, because the child may own rows that these commands have written.
func (a *machine) halves(r *Replica, next *progress, index uint64) (left, right *keys.Meta) {
	s := &a.entry.Split
	m := a.asOf(r, next, index)
	at := bytes.Clone(s.At)
	child := keys.NewMeta(s.Child, keys.Span{Table: m.Span.Table, Begin: at, End: m.Span.End})
	child.Epoch = m.Epoch + 1
	child.MaxTimestamp, child.SchemaVersion = m.MaxTimestamp, m.SchemaVersion
	child.Feature, child.Swept, child.Region = m.Feature, m.Swept, m.Region
	child.Parents = []keys.Parent{{Partition: m.Partition, Index: index, Epoch: m.Epoch}}
	child.Voters, child.Learners = slices.Clone(s.Voters), slices.Clone(s.Learners)
	m.Children = append(slices.Clone(m.Children),
		keys.Child{Partition: s.Child, Span: child.Span, Epoch: child.Epoch, Index: index})
	m.Span.End = at
	m.Epoch++
	return &m, &child
}

// divide durably stores both metas in one batch. If this node has a replica of the child, divide creates this replica.
// The child inherits the dedupe window of the parent.
func (h *Host) divide(r *Replica, left, right *keys.Meta) (*replicaInit, error) {
	h.listing.Lock()
	defer h.listing.Unlock()
	narrow, err := stateOf(left)
	if err != nil {
		return nil, err
	}
	n := h.childHere(right)
	b := h.store.NewBatch()
	defer b.Close()
	b.PutMeta(left)
	if n == nil {
		if err := errors.Join(b.CommitLogged(), h.store.Sync()); err != nil {
			return nil, err
		}
		r.state.Store(narrow)
		return nil, nil
	}
	child, err := newReplica(h, n)
	if err != nil {
		return nil, err
	}
	child.dedupe.inherit(&r.dedupe)
	child.throughput.budget.Inherit(&r.throughput.budget)
	child.wholeBatch.Store(r.wholeBatch.Load())
	child.quorumLowDisk.Store(r.quorumLowDisk.Load())
	b.PutMeta(right)
	if n.listed {
		b.PutReplica(&keys.Replica{Partition: right.Partition, Replica: uint64(n.replica),
			Created: h.opts.Clock.Wall().Unix()})
	}
	if err := errors.Join(b.CommitLogged(), h.store.Sync()); err != nil {
		return nil, err
	}
	replicas := h.clone()
	replicas[child.id] = child
	h.replicas.Store(&replicas)
	child.local.markFound(h.clock.Now())
	r.state.Store(narrow) // a reader that sees the smaller span must find the child
	return n, nil
}

// childHere returns the child's replica to create on this node. It returns nil if the child has no replica on this
// node, or if the replica already exists and waits for a snapshot.
func (h *Host) childHere(m *keys.Meta) *replicaInit {
	id := topology.PartitionID(m.Partition)
	if h.Replica(id) != nil {
		return nil
	}
	c := h.opts.Cluster
	if c == nil {
		return &replicaInit{id: id, meta: m, leads: true}
	}
	for _, list := range [2][]keys.Member{m.Voters, m.Learners} {
		for _, v := range list {
			if v.Node == c.Node {
				return &replicaInit{id: id, replica: topology.ReplicaID(v.Replica), meta: m, listed: true}
			}
		}
	}
	return nil
}
