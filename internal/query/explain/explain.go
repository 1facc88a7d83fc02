// SPDX-License-Identifier: Apache-2.0

// Package explain says what a statement would cost without carrying it out.
//
// A SELECT is tried out on commands that only peek: the same plan makes the same commands, and what they examine is
// counted instead of returned. As long as that is little (lookRows, lookBytes) the price is exact; of what is beyond,
// the price is estimated from what was seen. A modification is made into mutations and not sent: their price is known
// by their values, and where the leader would read rows first, those are looked at.
//
// Guarantees: (EX1) nothing is written, returned or charged as the statement; (EX2) as long as nobody writes in between
// the statement costs no less than Price.Least and no more than Price.Most, unless the latter is Unknown; estimates are
// the exception, which hold in all but rare cases; (EX3) what is looked at is bounded. Start at Select and Modify.
package explain

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	// lookRows, lookBytes and lookWalk bound the rows that are looked at for one statement, their logical bytes, and
	// the keys of deleted rows that are passed over.
	maxPeekRows  = 20_000
	maxPeekBytes = 16 << 20
	maxPeekWalk  = 200_000
)

// Unknown is the Price.Most of a statement that reads more than is looked at, with nothing to estimate the rest by.
const Unknown ru.Units = -1

// Price is what a statement would cost, and why.
type Price struct {
	// Plan says in words what the statement does, Index names the indexes that take part.
	Plan, Index string
	// Partitions is the number of physical partitions that it touches.
	Partitions int
	// Least, Expected and Most are what the request costs: one page of a SELECT that is read in pages.
	Min, Expected, Max ru.Units
	// Cost is what finding that out has cost.
	Cost ru.Units
}

// Source is where rows are looked at; the coordinator is one.
type Source interface {
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	// Find reads the rows that a conditional refers to; price is that of looking at them.
	Find(ctx context.Context, u *command.Conditional) (found []*row.Row, price ru.Units, err error)
	// Topology is the present map.
	Topology() *topology.Snapshot
}
