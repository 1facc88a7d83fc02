// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/membership"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// moveTimeout bounds the wait for a move. The move continues after the timeout.
const moveTimeout = 10 * time.Minute

// moveReplica moves a replica of a physical partition.
func (n *Node) moveReplica(ctx context.Context, o admin.MoveOrder) (string, error) {
	if n.cluster == nil {
		return "", errors.New("cannot move a replica: this is a standalone node")
	}
	t, err := n.catalog.UserTableNamed(o.Table)
	if err != nil {
		return "", err
	}
	s := n.metadata.State()
	from, err := membership.Find(s, o.From)
	if err != nil {
		return "", err
	}
	to, err := membership.Find(s, o.To)
	if err != nil {
		return "", err
	}
	order := placement.Move{
		Table: t.ID, Partition: topology.PartitionID(o.Partition), From: from.ID, To: to.ID, Hold: o.Hold,
	}
	what := fmt.Sprintf("partition %d of %s from node %s to node %s", o.Partition, t, from.ID.Short(), to.ID.Short())
	if o.DryRun {
		view := n.cluster.member.View()
		if _, err := order.Apply(s, &view); err != nil {
			return "", err
		}
		return fmt.Sprintf("the replica of %s would be moved%s; nothing was done", what, n.moveSize(&order)), nil
	}
	if err := n.recordMove(ctx, &order); err != nil {
		return "", err
	}
	n.log.LogAttrs(ctx, slog.LevelInfo, "move ordered", slog.Uint64("partition", o.Partition),
		slog.String("table", t.String()), slog.String("from", from.ID.Short()), slog.String("to", to.ID.Short()))
	if !o.Wait {
		return fmt.Sprintf("the replica of %s is being moved: see ilion partition list", what), nil
	}
	if err := n.awaitMove(ctx, &order); err != nil {
		return "", err
	}
	return fmt.Sprintf("the replica of %s has been moved", what), nil
}

// moveSize describes the amount of data to move, if known.
func (n *Node) moveSize(o *placement.Move) string {
	p := n.metadata.State().Topology.Partition(o.Partition)
	if p == nil || n.host.Replica(p.ID) == nil {
		return ""
	}
	e, err := n.store.Estimate(p.Span.Keys(p.Table))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": about %d bytes on disk", e.Bytes)
}

// recordMove records a move request.
func (n *Node) recordMove(ctx context.Context, o *placement.Move) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := n.metadata.Update(ctx, func(s *meta.State) (*meta.State, error) {
		view := n.cluster.member.View()
		return o.Apply(s, &view)
	})
	return err
}

// awaitMove returns when a move has been completed.
func (n *Node) awaitMove(ctx context.Context, o *placement.Move) error {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	for {
		s := n.metadata.State()
		p := s.Topology.Partition(o.Partition)
		switch {
		case p == nil:
			return fmt.Errorf("partition %d no longer exists: its table was dropped, or it was merged", o.Partition)
		case placement.MoveDone(p, o):
			return nil
		case p.Pin == nil:
			return fmt.Errorf("partition %d was not moved: the request expired or was canceled", o.Partition)
		}
		if _, err := n.metadata.Wait(ctx, s.Version+1); err != nil {
			return fmt.Errorf("partition %d is still being moved. Run \"ilion partition list\" to see the progress: %w",
				p.ID, err)
		}
	}
}
