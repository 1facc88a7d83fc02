// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Merge describes the merge of two adjacent physical partitions.
type Merge struct {
	// Table is the name of the table with its keyspace, and Partitions are the IDs of the partitions, in any order.
	Table      string
	Partitions [2]uint64
	// DryRun requests the plan without its execution. Wait makes the call wait for completion. Now skips the cool-down
	// after a previous split or merge.
	DryRun, Wait, Now bool
}

// Merge merges two adjacent physical partitions.
func (o *Partitions) Merge(ctx context.Context, r Merge) (string, error) {
	t, err := o.Tables.UserTableNamed(r.Table)
	if err != nil {
		return "", err
	}
	request := &merge.Request{Table: t.ID, First: topology.PartitionID(r.Partitions[0]),
		Second: topology.PartitionID(r.Partitions[1]), SkipCooldown: r.Now,
		Cause: topology.ByOperator, Level: o.level()}
	left, right, err := request.Neighbors(o.Metadata.State())
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("partitions %d and %d of %s", left.ID, right.ID, t)
	if r.DryRun {
		return o.describeMerge(request, what)
	}
	var gathering bool
	s, err := o.update(ctx, func(s *meta.State) (next *meta.State, err error) {
		next, gathering, err = request.Apply(s, time.Now())
		return next, err
	})
	if err != nil {
		return "", err
	}
	o.Log.LogAttrs(ctx, slog.LevelInfo, "merge ordered", slog.Uint64("partition", uint64(left.ID)),
		slog.Uint64("right", uint64(right.ID)), slog.String("table", t.String()), slog.Bool("gathering", gathering))
	if gathering && !r.Wait {
		return fmt.Sprintf("%s are on different nodes: their replicas are brought together, for which there is %v, "+
			"and merged then: see ilion partition list", what, merge.ColocateTimeout), nil
	}
	switch p := s.Topology.Partition(left.ID); {
	case p == nil || p.Merge == nil && !gathering: // the merge has already been completed
	case o.Standalone != nil:
		err = o.Standalone.ApplyMerges(ctx)
	case !r.Wait:
		return fmt.Sprintf("%s are being merged into partition %d", what, left.ID), nil
	default:
		err = o.awaitMerge(ctx, t, left, right)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s have been merged into partition %d", what, left.ID), nil
}

// describeMerge describes the effect of a merge request.
func (o *Partitions) describeMerge(r *merge.Request, what string) (string, error) {
	_, gathering, err := r.Apply(o.Metadata.State(), time.Now())
	switch {
	case err != nil:
		return "", err
	case gathering:
		return what + " would be brought to the same nodes, and merged there; nothing was done", nil
	}
	return what + " would be merged; nothing was done", nil
}

// awaitMerge waits until a merge has been completed or canceled.
func (o *Partitions) awaitMerge(ctx context.Context, t *schema.Table, left, right *topology.Partition) error {
	timeout := completionTimeout
	if !placement.Colocated(left, right) {
		timeout = moveTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		s := o.Metadata.State()
		switch now := s.Topology.Partition(left.ID); {
		case now == nil:
			return fmt.Errorf("partition %d was dropped with its table", left.ID)
		case now.Epoch > left.Epoch:
			return nil
		case now.Merge == nil && (now.Pin == nil || now.Pin.MergeWith == 0):
			return fmt.Errorf("the merge of partitions %d and %d of %s was canceled: some replicas were not "+
				"ready in time. Repeat the command when all nodes are up", left.ID, right.ID, t)
		}
		if _, err := o.Metadata.Wait(ctx, s.Version+1); err != nil {
			return fmt.Errorf("partitions %d and %d are still being merged. Run \"ilion partition list\" to see the "+
				"progress: %w", left.ID, right.ID, err)
		}
	}
}
