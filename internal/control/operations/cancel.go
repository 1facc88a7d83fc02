// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/ilion-db/ilion/internal/control/merge"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Cancel describes the cancellation of a pending operation.
type Cancel struct {
	// Table is the name of the table with its keyspace, and Partition is the ID of the partition.
	Table     string
	Partition uint64
}

// Cancel cancels the pending operation of a physical partition.
func (o *Partitions) Cancel(ctx context.Context, r Cancel) (string, error) {
	t, err := o.Tables.UserTableNamed(r.Table)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var what string
	var cut *topology.Partition
	_, err = o.Metadata.Update(ctx, func(s *meta.State) (next *meta.State, err error) {
		next, what, err = merge.Cancel(s, t.ID, topology.PartitionID(r.Partition))
		if cut = nil; err == nil {
			if p := next.Topology.Partition(topology.PartitionID(r.Partition)); p != nil && p.Split != nil {
				cut = p
			}
		}
		return next, err
	})
	if err == nil && o.Standalone != nil {
		err = o.Standalone.Apply(ctx)
	}
	if err != nil {
		return "", err
	}
	o.Log.LogAttrs(ctx, slog.LevelInfo, "change canceled", slog.String("what", what), slog.String("table", t.String()))
	if cut != nil {
		waiting, done := context.WithTimeout(ctx, cancelTimeout)
		defer done()
		switch err := o.awaitSplit(waiting, cut); {
		case err == nil:
			return "", fmt.Errorf("cannot cancel %s of %s: it has already been executed", what, t)
		case !errors.Is(err, errSplitCanceled):
			return fmt.Sprintf("%s of %s is being canceled, unless it has already been executed. Run "+
				"\"ilion partition history\" to see the result", what, t), nil
		}
	}
	return fmt.Sprintf("%s of %s was canceled", what, t), nil
}
