// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/reconcile"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// The limits of operator requests about partitions.
const (
	// requestTimeout bounds the wait for a request to be recorded, and on a standalone node for its execution.
	requestTimeout = 10 * time.Second
	// completionTimeout bounds the wait for a split or merge. The operation continues after the timeout.
	completionTimeout = 45 * time.Second
)

// splitPartition splits a physical partition.
func (n *Node) splitPartition(ctx context.Context, o admin.SplitOrder) (string, error) {
	t, err := n.catalog.UserTableNamed(o.Table)
	if err != nil {
		return "", err
	}
	order := split.Request{Table: t.ID, Partition: topology.PartitionID(o.Partition), SkipCooldown: o.Now,
		Cause: topology.ByOperator}
	if n.cluster == nil {
		order.Level = n.store.Level()
	}
	if order.At, err = n.splitPoint(t, &order, o.At); err != nil {
		return "", err
	}
	if o.DryRun {
		if _, err := order.Apply(n.metadata.State(), time.Now()); err != nil {
			return "", err
		}
		return fmt.Sprintf("partition %d of %s would be split at token %s%s; nothing was done", o.Partition, t,
			order.At, n.splitSizes(&order)), nil
	}
	s, err := n.recordSplit(ctx, &order)
	if err != nil {
		return "", err
	}
	p := s.Topology.Partition(order.Partition)
	if p == nil || p.Split == nil { // it is done already
		return fmt.Sprintf("partition %d of %s is split at token %s", o.Partition, t, order.At), nil
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "split ordered", slog.Uint64("partition", o.Partition),
		slog.String("table", t.String()), slog.String("at", order.At.String()),
		slog.String("cause", order.Cause.String()))
	if n.cluster == nil {
		if err := n.applySplitsStandalone(ctx); err != nil {
			return "", err
		}
	} else if !o.Wait {
		return fmt.Sprintf("partition %d of %s is being split at token %s; the upper part becomes partition %d",
			o.Partition, t, order.At, p.Split.Child), nil
	} else if err := n.awaitSplit(ctx, p); err != nil {
		return "", err
	}
	return fmt.Sprintf("partition %d of %s has been split at token %s; the upper part is partition %d", o.Partition, t,
		order.At, p.Split.Child), nil
}

// splitPoint returns the position of a token, or the middle of the data in the local replica.
func (n *Node) splitPoint(t *schema.Table, o *split.Request, at string) (topology.Position, error) {
	if at != "" {
		tok, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return topology.Position{}, fmt.Errorf("invalid token %q: expected an integer from -2^63 to 2^63-1", at)
		}
		return topology.Position{Ring: token.Token(tok).Position()}, nil
	}
	p := n.metadata.State().Topology.Partition(o.Partition)
	if p == nil || p.Table != t.ID {
		return topology.Position{},
			fmt.Errorf("%s has no partition %d. Run \"ilion partition list\" to list its partitions", t, o.Partition)
	}
	if r := n.host.Replica(p.ID); r == nil || r.Table() == 0 {
		return topology.Position{},
			fmt.Errorf("this node has no replica of partition %d and cannot compute its middle: "+
				"ask one that has, or give --at TOKEN", p.ID)
	}
	middle, err := n.store.FindSplitPoint(p.Span.Keys(p.Table))
	if err != nil {
		return topology.Position{}, fmt.Errorf("partition %d cannot be split in the middle: %w", p.ID, err)
	}
	return middle.At, nil
}

// splitSizes describes the sizes of both sides of a split, if known.
func (n *Node) splitSizes(o *split.Request) string {
	p := n.metadata.State().Topology.Partition(o.Partition)
	if p == nil || n.host.Replica(o.Partition) == nil {
		return ""
	}
	left, right := p.Span, p.Span
	left.Limit, right.Begin = o.At, o.At
	l, err := n.store.Estimate(left.Keys(p.Table))
	r, err2 := n.store.Estimate(right.Keys(p.Table))
	if err != nil || err2 != nil {
		return ""
	}
	return fmt.Sprintf(": about %d logical partitions and %d bytes on disk before it, %d and %d after it", l.Partitions,
		l.Bytes, r.Partitions, r.Bytes)
}

// sizeOf estimates the size of a partition on this node's disk in bytes, or returns 0 if unknown. It reads no rows,
// because requests may be waiting for the end of a merge.
func (n *Node) sizeOf(p *topology.Partition) uint64 {
	size, _ := n.store.DiskBytes(p.Span.Keys(p.Table))
	return size
}

// recordSplit records a split request.
func (n *Node) recordSplit(ctx context.Context, o *split.Request) (*meta.State, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return n.metadata.Update(ctx, func(s *meta.State) (*meta.State, error) { return o.Apply(s, time.Now()) })
}

// errSplitCanceled means that a split was canceled before it was executed.
var errSplitCanceled = errors.New("the split was canceled")

// awaitSplit returns when a split has been completed, or errSplitCanceled.
func (n *Node) awaitSplit(ctx context.Context, p *topology.Partition) error {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	for {
		s := n.metadata.State()
		switch now := s.Topology.Partition(p.ID); {
		case now == nil:
			return fmt.Errorf("partition %d was dropped with its table", p.ID)
		case now.Epoch == p.Epoch+1 && now.Span.Limit.Compare(p.Span.Limit) == 0:
			return fmt.Errorf("partition %d is unchanged: %w", p.ID, errSplitCanceled)
		case now.Epoch > p.Epoch:
			return nil
		}
		if _, err := n.metadata.Wait(ctx, s.Version+1); err != nil {
			return fmt.Errorf("partition %d is still being split. Run \"ilion partition list\" to see the progress: %w",
				p.ID, err)
		}
	}
}

// applySplitsStandalone executes recorded splits on a standalone node, and completes the cancellation of canceled
// splits.
func (n *Node) applySplitsStandalone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	n.splitting.Lock()
	defer n.splitting.Unlock()
	splitter := &reconcile.SplitReconciler{Keeper: n.metadata, Size: n.sizeOf,
		Done: func(p *topology.Partition, recalled bool) { reconcile.LogSplit(n.log, p, recalled) }}
	for p := range n.metadata.State().Topology.All() {
		if p.Split == nil {
			continue
		}
		r := n.host.Replica(p.ID)
		if r == nil {
			return fmt.Errorf("partition %d has no replica on this node", p.ID)
		}
		if err := splitter.Run(ctx, r, p); err != nil {
			return err
		}
	}
	return nil
}
