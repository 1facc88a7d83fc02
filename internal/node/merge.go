// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// mergePartitions merges two adjacent physical partitions.
func (n *Node) mergePartitions(ctx context.Context, o admin.MergeOrder) (string, error) {
	t, err := n.catalog.UserTableNamed(o.Table)
	if err != nil {
		return "", err
	}
	order := &merge.Request{Table: t.ID, First: topology.PartitionID(o.Partitions[0]),
		Second: topology.PartitionID(o.Partitions[1]), SkipCooldown: o.Now, Cause: topology.ByOperator}
	if n.cluster == nil {
		order.Level = n.store.Level()
	}
	l, r, err := order.Neighbors(n.metadata.State())
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("partitions %d and %d of %s", l.ID, r.ID, t)
	if o.DryRun {
		return n.describeMerge(order, what)
	}
	s, gathering, err := n.recordMerge(ctx, order)
	if err != nil {
		return "", err
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "merge ordered", slog.Uint64("partition", uint64(l.ID)),
		slog.Uint64("right", uint64(r.ID)), slog.String("table", t.String()), slog.Bool("gathering", gathering))
	if gathering && !o.Wait {
		return fmt.Sprintf("%s are on different nodes: their replicas are brought together, for which there is %v, "+
			"and merged then: see ilion partition list", what, merge.ColocateTimeout), nil
	}
	switch p := s.Topology.Partition(l.ID); {
	case p == nil || p.Merge == nil && !gathering: // it is done already
	case n.cluster == nil:
		if err := n.applyMergesStandalone(ctx); err != nil {
			return "", err
		}
	case !o.Wait:
		return fmt.Sprintf("%s are being merged into partition %d", what, l.ID), nil
	default:
		if err := n.awaitMerge(ctx, t, l, r); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s have been merged into partition %d", what, l.ID), nil
}

// cancelChange cancels the pending change of a physical partition.
func (n *Node) cancelChange(ctx context.Context, o admin.CancelOrder) (string, error) {
	t, err := n.catalog.UserTableNamed(o.Table)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var what string
	var cut *topology.Partition
	_, err = n.metadata.Update(ctx, func(s *meta.State) (next *meta.State, err error) {
		next, what, err = merge.Cancel(s, t.ID, topology.PartitionID(o.Partition))
		if cut = nil; err == nil {
			if p := next.Topology.Partition(topology.PartitionID(o.Partition)); p != nil && p.Split != nil {
				cut = p
			}
		}
		return next, err
	})
	if err == nil && n.cluster == nil {
		err = errors.Join(n.applySplitsStandalone(ctx), n.applyMergesStandalone(ctx))
	}
	if err != nil {
		return "", err
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "change canceled", slog.String("what", what), slog.String("table", t.String()))
	if cut != nil {
		waiting, done := context.WithTimeout(ctx, cancelTimeout)
		defer done()
		switch err := n.awaitSplit(waiting, cut); {
		case err == nil:
			return "", fmt.Errorf("cannot cancel %s of %s: it has already been executed", what, t)
		case !errors.Is(err, errSplitCanceled):
			return fmt.Sprintf("%s of %s is being canceled, unless it has already been executed. Run "+
				"\"ilion partition history\" to see the result", what, t), nil
		}
	}
	return fmt.Sprintf("%s of %s was canceled", what, t), nil
}

// cancelTimeout is how long the cancellation of a split waits for its outcome.
const cancelTimeout = 2 * time.Second

// describeMerge describes the effect of a merge request.
func (n *Node) describeMerge(o *merge.Request, what string) (string, error) {
	_, gathering, err := o.Apply(n.metadata.State(), time.Now())
	switch {
	case err != nil:
		return "", err
	case gathering:
		return what + " would be brought to the same nodes, and merged there; nothing was done", nil
	}
	return what + " would be merged; nothing was done", nil
}

// recordMerge records a merge request.
func (n *Node) recordMerge(ctx context.Context, o *merge.Request) (s *meta.State, gathering bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err = n.metadata.Update(ctx, func(s *meta.State) (next *meta.State, err error) {
		next, gathering, err = o.Apply(s, time.Now())
		return next, err
	})
	return s, gathering, err
}

// awaitMerge returns when a merge has been completed or canceled.
func (n *Node) awaitMerge(ctx context.Context, t *schema.Table, left, right *topology.Partition) error {
	most := completionTimeout
	if !placement.Colocated(left, right) {
		most = moveTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		s := n.metadata.State()
		switch now := s.Topology.Partition(left.ID); {
		case now == nil:
			return fmt.Errorf("partition %d was dropped with its table", left.ID)
		case now.Epoch > left.Epoch:
			return nil
		case now.Merge == nil && (now.Pin == nil || now.Pin.MergeWith == 0):
			return fmt.Errorf("the merge of partitions %d and %d of %s was canceled: some replicas were not "+
				"ready in time. Repeat the command when all nodes are up", left.ID, right.ID, t)
		}
		if _, err := n.metadata.Wait(ctx, s.Version+1); err != nil {
			return fmt.Errorf("partitions %d and %d are still being merged. Run \"ilion partition list\" to see the progress: %w", left.ID,
				right.ID, err)
		}
	}
}

// applyMergesStandalone executes recorded merges on a standalone node.
func (n *Node) applyMergesStandalone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	n.splitting.Lock()
	defer n.splitting.Unlock()
	joiner := &reconcile.MergeReconciler{Keeper: n.metadata, Size: n.sizeOf,
		Done: func(left, right topology.PartitionID, recalled bool) {
			reconcile.LogMerge(n.log, left, right, recalled)
		}}
	for p := range n.metadata.State().Topology.InMotion() {
		if p.Merge == nil || p.Merge.Left != p.ID {
			continue
		}
		l, err := n.mergeableReplica(p.ID)
		if err != nil {
			return err
		}
		right := func() (reconcile.Mergeable, error) { return n.mergeableReplica(p.Merge.Right) }
		if err := joiner.RunStandalone(ctx, l, right, p); err != nil {
			return err
		}
	}
	return nil
}

// mergeableReplica returns the local replica of a partition that is being merged.
func (n *Node) mergeableReplica(id topology.PartitionID) (reconcile.Mergeable, error) {
	if r := n.host.Replica(id); r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("partition %d has no replica on this node", id)
}
