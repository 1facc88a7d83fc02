// SPDX-License-Identifier: Apache-2.0

package operations

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
)

// Move describes the move of a replica to another node.
type Move struct {
	// Table is the name of the table with its keyspace, and Partition is the ID of the partition.
	Table     string
	Partition uint64
	// From and To are prefixes of the node IDs.
	From, To string
	// Hold is the time for which rebalancing does not move the partition after the move. The default is one hour.
	Hold time.Duration
	// DryRun requests the plan without its execution. Wait makes the call wait for completion.
	DryRun, Wait bool
}

// Move moves a replica of a physical partition.
func (o *Partitions) Move(ctx context.Context, r Move) (string, error) {
	if o.Member == nil {
		return "", errors.New("cannot move a replica: this is a standalone node")
	}
	t, err := o.Tables.UserTableNamed(r.Table)
	if err != nil {
		return "", err
	}
	s := o.Metadata.State()
	from, err := membership.Find(s, r.From)
	if err != nil {
		return "", err
	}
	to, err := membership.Find(s, r.To)
	if err != nil {
		return "", err
	}
	request := placement.Move{
		Table: t.ID, Partition: topology.PartitionID(r.Partition), From: from.ID, To: to.ID, Hold: r.Hold,
	}
	apply := func(s *meta.State) (*meta.State, error) {
		view := o.Member.View()
		return request.Apply(s, &view)
	}
	what := fmt.Sprintf("partition %d of %s from node %s to node %s", r.Partition, t, from.ID.Short(), to.ID.Short())
	if r.DryRun {
		if _, err := apply(s); err != nil {
			return "", err
		}
		return fmt.Sprintf("the replica of %s would be moved%s; nothing was done", what, o.moveSize(&request)), nil
	}
	if _, err := o.update(ctx, apply); err != nil {
		return "", err
	}
	o.Log.LogAttrs(ctx, slog.LevelInfo, "move ordered", slog.Uint64("partition", r.Partition),
		slog.String("table", t.String()), slog.String("from", from.ID.Short()), slog.String("to", to.ID.Short()))
	if !r.Wait {
		return fmt.Sprintf("the replica of %s is being moved: see ilion partition list", what), nil
	}
	if err := o.awaitMove(ctx, &request); err != nil {
		return "", err
	}
	return fmt.Sprintf("the replica of %s has been moved", what), nil
}

// moveSize describes the amount of data to move.
func (o *Partitions) moveSize(r *placement.Move) string {
	p := o.Metadata.State().Topology.Partition(r.Partition)
	if p == nil || o.Host.Replica(p.ID) == nil {
		return ""
	}
	e, err := o.Store.Estimate(p.Span.Keys(p.Table))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": about %d bytes on disk", e.Bytes)
}

// awaitMove waits until a move has been completed.
func (o *Partitions) awaitMove(ctx context.Context, r *placement.Move) error {
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	for {
		s := o.Metadata.State()
		p := s.Topology.Partition(r.Partition)
		switch {
		case p == nil:
			return fmt.Errorf("partition %d no longer exists: its table was dropped, or it was merged", r.Partition)
		case placement.MoveDone(p, r):
			return nil
		case p.Pin == nil:
			return fmt.Errorf("partition %d was not moved: the request expired or was canceled", r.Partition)
		}
		if _, err := o.Metadata.Wait(ctx, s.Version+1); err != nil {
			return fmt.Errorf("partition %d is still being moved. Run \"ilion partition list\" to see the progress: %w",
				p.ID, err)
		}
	}
}
