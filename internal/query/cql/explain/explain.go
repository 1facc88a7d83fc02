// SPDX-License-Identifier: Apache-2.0

// Package explain computes the price of a statement without executing it.
//
// A SELECT is executed with commands that only peek. The plan produces the usual commands, but the rows they examine
// are counted instead of returned. Up to maxPeekRows, maxPeekBytes, and maxPeekWalk, the price is exact. Beyond these
// limits it is estimated from the examined part. A modification is converted into mutations that are not sent. Their
// price follows from their values. Rows that the leader would read are read and counted.
//
// Guarantees:
//
//   - (EX1) The statement is not applied, returns no rows, and is not charged.
//   - (EX2) Unless rows are written concurrently, the cost of the statement is between Price.Min and Price.Max, if Max
//     is not Unknown. Estimated bounds can fail in rare cases.
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
	// maxPeekRows, maxPeekBytes, and maxPeekWalk limit the rows examined for one statement, their logical bytes, and
	// the keys of deleted rows that are skipped.
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
	// Min, Expected, and Max are the cost of the request. For a paged SELECT they are the cost of one page.
	Min, Expected, Max ru.Units
	// Cost is the cost of computing the price.
	Cost ru.Units
}

// Source provides the rows to examine. The coordinator implements it.
type Source interface {
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	// Find reads the rows that a conditional refers to. price is the cost of reading them.
	Find(ctx context.Context, u *command.Conditional) (found []*row.Row, price ru.Units, err error)
	// Topology returns the current topology.
	Topology() *topology.Snapshot
}
