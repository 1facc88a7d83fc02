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

// splitLevel is the feature level from which on a log may have an EntrySplit.
const splitLevel feature.Level = 2

// Split has a new partition take what begins at s.At, and returns when that is applied here: what is sent to this
// partition for it ends in *WrongRange from then on. Nothing is copied. Only the leader can, and only at the epoch that
// is named: s.Leader is set. Errors are those of Write; ErrUncertain says that it may still happen, unless the epoch
// changes first.
func (r *Replica) Split(ctx context.Context, epoch uint64, s *command.Split) error {
	if r.isMeta() {
		return r.wrongRange()
	}
	if r.Level() < splitLevel {
		return fmt.Errorf("partition %d has feature level %d, and splits need %d", r.id, r.Level(), splitLevel)
	}
	if now := r.state.Load(); now.epoch != epoch || !inside(now.keys, s.At) {
		return r.wrongRange()
	}
	at, err := keys.ParseBoundary(r.state.Load().keys.Table, s.At)
	if err != nil {
		return err
	}
	// What was accepted is in the log before the split, and what would come after it is refused before it is proposed:
	// the log refuses nothing but after a change of leaders, which a node that stands alone does not have.
	r.rejectFrom.Store(&at)
	defer r.rejectFrom.Store(nil)
	r.host.latches.pass()
	e := &command.Entry{Kind: command.EntrySplit, Epoch: epoch, Split: *s}
	if c := r.host.opts.Cluster; c != nil {
		e.Split.Leader = c.Node
	}
	_, err = r.order(ctx, e)
	return err
}

// inside reports whether a boundary leaves something of a span on both sides.
func inside(s keys.Span, at []byte) bool {
	return bytes.Compare(at, s.Begin) > 0 && (len(s.End) == 0 || bytes.Compare(at, s.End) < 0)
}

// split applies a.entry, of which index is the entry's in the log. What was applied before it is committed first, with
// the progress from before the entry: after a crash the entry is applied again, and finds its split done. The child is
// durable before anything follows, and its replica stands before the entry is acknowledged.
//
// The rows stay where they are: keys have no partition in them. So whoever has read one state of the replica reads rows
// of the child once it has grown; readers look at the state again when they have read.
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
	a.host.seqs.begin(child, a.entry.Split.Leader)
	return nil, nil
}

// halves are the metas of a partition and of its child when it splits. Both know of the commands before this one in the
// same entry: what they wrote may be the child's now, and is stored already.
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

// divide stores both halves of a partition durably in one batch and makes the child's replica, if the node has one. It
// has the parent's memory of ids: what was applied before the split is known to both.
func (h *Host) divide(r *Replica, left, right *keys.Meta) (*born, error) {
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
	child.recent.inherit(&r.recent)
	child.budget.Inherit(&r.budget)
	child.wide.Store(r.wide.Load())
	child.crowded.Store(r.crowded.Load())
	b.PutMeta(right)
	if n.listed {
		b.PutReplica(&keys.Replica{Partition: right.Partition, Replica: uint64(n.replica),
			Created: h.opts.Now().Unix()})
	}
	if err := errors.Join(b.CommitLogged(), h.store.Sync()); err != nil {
		return nil, err
	}
	replicas := h.copyReplicas(1)
	replicas[child.id] = child
	h.replicas.Store(&replicas)
	child.found()
	r.state.Store(narrow) // whoever sees that the parent has less finds the child
	return n, nil
}

// childHere is the replica of a child that is born on this node, nil if there is none, or if it is here already and
// waits for a snapshot: then the leader sends it one.
func (h *Host) childHere(m *keys.Meta) *born {
	id := topology.PartitionID(m.Partition)
	if h.Replica(id) != nil {
		return nil
	}
	c := h.opts.Cluster
	if c == nil {
		return &born{id: id, meta: m, leads: true}
	}
	for _, list := range [2][]keys.Member{m.Voters, m.Learners} {
		for _, v := range list {
			if v.Node == c.Node {
				return &born{id: id, replica: topology.ReplicaID(v.Replica), meta: m, listed: true}
			}
		}
	}
	return nil
}
