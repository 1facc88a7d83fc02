// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/control/backfill"
	"github.com/ilion-db/ilion/internal/control/schemachange"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// BackfillTable provides the data of all tables to package backfill.
type BackfillTable struct {
	Coordinator *coordinator.Coordinator
	// Sched is the scheduler of a simulation. Outside simulations, Sched is nil.
	Sched *sched.Scheduler
}

// Read implements backfill.Table.
func (t BackfillTable) Read(ctx context.Context, read *command.Read, v command.Visitor) error {
	return retryable(t.Coordinator.Read(ctx, read, v))
}

// Write implements backfill.Table.
func (t BackfillTable) Write(ctx context.Context, ms []command.Mutation, level dberr.Consistency) (
	left []command.Mutation, err error) {
	all := make([]command.OutcomeChannel, len(ms))
	for i := range ms {
		all[i] = make(command.OutcomeChannel, 1)
		t.Coordinator.Write(ctx, ms[i:i+1], coordinator.WriteOptions{Level: level, Type: "UNLOGGED_BATCH"}, all[i])
	}
	var busy *dberr.Overloaded
	for i := range all {
		// Each write ends at the coordinator's deadline.
		o, stopped := sched.Await(t.Sched, context.WithoutCancel(ctx), all[i], 0)
		switch end := retryable(errors.Join(o.Err, stopped)); {
		case end == nil:
		case errors.As(end, &busy):
			left = append(left, ms[i])
		case err == nil:
			err = end
		}
	}
	if err == nil && busy != nil {
		err = busy
	}
	return left, err
}

func retryable(err error) error {
	if errors.Is(err, coordinator.ErrStaleSchema) || errors.Is(err, coordinator.ErrRepeat) {
		return fmt.Errorf("%w: %w", backfill.ErrAgain, err)
	}
	return err
}

// Require implements backfill.Table.
func (t BackfillTable) Require(ctx context.Context, table uint32, revision uint64) error {
	return t.Coordinator.Require(ctx, table, revision, schemachange.Timeout)
}
