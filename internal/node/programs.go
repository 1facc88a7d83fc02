// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// programs gives the programs of transactions to those who know what they mean, by their first bytes: cql those of
// statements, items those of containers.
type programs struct{ cql, items partition.Programs }

// Program implements partition.Programs.
func (p programs) Program(ctx context.Context, c *command.Conditional) (partition.Program, error) {
	if first := c.Program; len(first) > 0 && first[0] >= container.FirstProgram && first[0] <= container.LastProgram {
		return p.items.Program(ctx, c)
	}
	return p.cql.Program(ctx, c)
}

// folds gives the programs of folds to those who know what they mean, by their first bytes.
type folds struct{ items partition.Folds }

// Fold implements partition.Folds.
func (f folds) Fold(ctx context.Context, c *command.Read) (partition.Fold, error) {
	if first := c.Fold.Program; len(first) > 0 && first[0] >= container.FirstFold && first[0] <= container.LastFold {
		return f.items.Fold(ctx, c)
	}
	return nil, partition.ErrNoFold
}
