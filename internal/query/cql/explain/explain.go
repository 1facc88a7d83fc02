// SPDX-License-Identifier: Apache-2.0

// Package explain computes the price of a statement without executing it.
//
// A SELECT is executed with commands that only count rows. Up to the limits maxPeekRows, maxPeekBytes, and maxPeekWalk,
// the price is exact. If a limit is exceeded, the price is estimated from the examined rows. A modification is
// converted into mutations, which are not sent. The price is computed from the values in the mutations. Rows that the
// leader would read are read and counted.
//
// Guarantees:
//
//   - (EX1) The statement is not applied, returns no rows, and is not charged.
//   - (EX2) The cost of the statement is between Price.Min and Price.Max unless rows are written concurrently or Max is
//     Unknown. In rare cases, the cost is outside estimated bounds.
//   - (EX3) The amount of examined data is limited.
//
// Start reading at Select and Modify.
package explain

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// maxPeekRows is the maximum number of rows that are examined for one statement. maxPeekBytes limits the logical
	// size of these rows. maxPeekWalk limits the number of skipped keys of deleted rows.
	maxPeekRows  = 20_000
	maxPeekBytes = 16 << 20
	maxPeekWalk  = 200_000
)

// Unknown is the Price.Max of a statement that exceeds the limits and cannot be estimated.
const Unknown ru.Units = -1

// Price is the price of a statement and its explanation.
type Price struct {
	// Plan describes the statement. Index contains the names of the indexes that the statement uses.
	Plan, Index string
	// Partitions is the number of physical partitions that the statement accesses.
	Partitions int
	// Min, Expected, and Max are the minimum, expected, and maximum cost of the request. For a paged SELECT, they refer
	// to one page.
	Min, Expected, Max ru.Units
	// Cost is the cost of computing the price.
	Cost ru.Units
}

// Source provides the rows that are examined. The coordinator implements Source.
type Source interface {
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	// Find reads the rows to which a conditional statement refers. price is the cost of reading these rows.
	Find(ctx context.Context, u *command.Conditional) (found []*row.Row, price ru.Units, err error)
	// Topology returns the current topology.
	Topology() *topology.Snapshot
}
