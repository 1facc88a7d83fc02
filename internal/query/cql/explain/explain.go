// SPDX-License-Identifier: Apache-2.0

// Package explain computes the price of a statement without executing it.
//
// A SELECT is executed with commands that only count. The plan produces the usual commands, but the examined rows are
// counted and not returned. The price is exact up to the limits maxPeekRows, maxPeekBytes, and maxPeekWalk. Beyond
// these limits, the price is estimated from the rows that were examined. A modification is converted into mutations,
// which are not sent. The price follows from the values in the mutations. Rows that the leader would read are read and
// counted.
//
// Guarantees:
//
//   - (EX1) The statement is not applied, returns no rows, and is not charged.
//   - (EX2) Unless rows are written concurrently, the cost of the statement is between Price.Min and Price.Max. This
//     does not apply if Max is Unknown. In rare cases, the cost is outside estimated bounds.
//   - (EX3) The amount of data examined is limited.
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
	// maxPeekRows is the maximum number of rows that are examined for one statement. maxPeekBytes limits their logical
	// bytes, and maxPeekWalk limits the skipped keys of deleted rows.
	maxPeekRows  = 20_000
	maxPeekBytes = 16 << 20
	maxPeekWalk  = 200_000
)

// Unknown is the Price.Max of a statement that exceeds the limits and cannot be estimated.
const Unknown ru.Units = -1

// Price is the price of a statement and its explanation.
type Price struct {
	// Plan describes the statement. Index names the indexes that it uses.
	Plan, Index string
	// Partitions is the number of physical partitions that the statement accesses.
	Partitions int
	// Min, Expected, and Max are the cost of the request. For a paged SELECT, they are the cost of one page.
	Min, Expected, Max ru.Units
	// Cost is the cost of computing the price.
	Cost ru.Units
}

// Source provides the rows to examine. The coordinator implements it.
type Source interface {
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	// Find reads the rows to which a conditional statement refers. price is the cost of reading these rows.
	Find(ctx context.Context, u *command.Conditional) (found []*row.Row, price ru.Units, err error)
	// Topology returns the current topology.
	Topology() *topology.Snapshot
}
