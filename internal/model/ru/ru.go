// SPDX-License-Identifier: Apache-2.0

// Package ru is the price list: what a command costs in request units.
//
// Guarantees: (R1) a price depends only on the logical bytes and rows of a command and its result (see row.Size), never
// on operands, tombstones, caches, compaction or the consistency level: the same statement over the same data costs the
// same. Start at Units, then Write and Read.
//
// The prices, with KB = 1024 bytes:
//
//	point read       1 RU for the first KB, then 1/11 RU a KB: 100 KB cost 10 RU. What is not found costs 1 RU.
//	range or slice   a base of 1 RU (2.5 RU for each physical partition when no partition key is given), 1/50 RU a row returned to
//	                 the coordinator, 1/11 RU a KB.
//	write            5 RU for each row up to a KB, then 5/11 RU a KB of that row: 100 KB cost 50 RU. A deletion is a write.
//	index entry      0.5 RU each
//	condition        the reads of the rows it looks at, and the write if it is applied. Counters and list indexes likewise.
//
// A row's logical bytes are its partition key, its clustering key and row.Size.
package ru

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Units is an amount of request units, in thousandths.
type Units int64

// Unit is one request unit.
const Unit Units = 1000

const (
	kb = 1024

	readBase      = Unit
	readSpreadOut = Unit * 5 / 2
	readRow       = Unit / 50
	writeRow      = 5 * Unit
	writeIndex    = Unit / 2
)

// Float is the amount in request units, as clients are told.
func (u Units) Float() float64 { return float64(u) / float64(Unit) }

// perKB is price (for a KB) times n bytes, rounded up to a thousandth.
func perKB(n int64, price Units, parts int64) Units {
	if n <= 0 {
		return 0
	}
	return Units((n*int64(price) + kb*parts - 1) / (kb * parts))
}

// Write is the price of a mutation, and the number of its logical bytes.
func Write(m *command.Mutation) (price Units, bytes int64) {
	for i := range m.Ops {
		op := &m.Ops[i]
		n := int64(len(m.Key) + len(op.Clustering))
		if op.Kind == command.OpIndex {
			price += writeIndex
			bytes += n + int64(len(op.Value))
			continue
		}
		n += int64(row.Size(op.Operand))
		price += writeRow + perKB(n-kb, writeRow, 11)
		bytes += n
	}
	return price, bytes
}

// Shape says how a read is priced.
type Shape uint8

// The shapes.
const (
	// Point reads one row, or one logical partition that turned out to hold one.
	Point Shape = iota
	// Slice reads rows of one logical partition.
	Slice
	// Scan reads logical partitions of one physical partition.
	Scan
)

// ShapeOf tells the shape of a read that found so many rows.
func ShapeOf(c *command.Read, rows int64) Shape {
	switch {
	case c.Key == nil:
		return Scan
	case rows > 1:
		return Slice
	}
	return Point
}

// Read is the price of a read at one physical partition that passed on so many rows with so many logical bytes.
func Read(s Shape, rows, bytes int64) Units {
	switch s {
	case Scan:
		return readSpreadOut + Units(rows)*readRow + perKB(bytes, Unit, 11)
	case Slice:
		return readBase + Units(rows)*readRow + perKB(bytes-kb, Unit, 11)
	}
	return readBase + perKB(bytes-kb, Unit, 11)
}
