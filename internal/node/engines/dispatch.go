// SPDX-License-Identifier: Apache-2.0

package engines

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Programs returns the transaction programs of both engines.
func (e *Engines) Programs() partition.Programs {
	return programDispatcher{e.Engine.Programs(), e.Containers}
}

// Aggregator returns the aggregations of containers.
func (e *Engines) Aggregator() partition.Aggregator { return aggregationDispatcher{e.Containers} }

// programDispatcher selects the implementation of a transaction program by the first byte of the program. The
// implementations are cql for statements and items for containers.
type programDispatcher struct{ cql, items partition.Programs }

// Program implements partition.Programs.
func (p programDispatcher) Program(ctx context.Context, c *command.Conditional) (partition.Program, error) {
	if first := c.Program; len(first) > 0 && first[0] >= container.FirstProgram && first[0] <= container.LastProgram {
		return p.items.Program(ctx, c)
	}
	return p.cql.Program(ctx, c)
}

// aggregationDispatcher selects the implementation of an aggregation by the first byte of its program.
type aggregationDispatcher struct{ items partition.Aggregator }

// Aggregate implements partition.Aggregator.
func (f aggregationDispatcher) Aggregate(ctx context.Context, c *command.Read) (partition.Aggregation, error) {
	if first := c.Pushdown.Program; len(first) > 0 && first[0] >= container.FirstPushdown &&
		first[0] <= container.LastPushdown {
		return f.items.Aggregate(ctx, c)
	}
	return nil, partition.ErrNoPushdown
}
