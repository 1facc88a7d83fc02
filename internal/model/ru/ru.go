// SPDX-License-Identifier: Apache-2.0

// Package ru is the price list: what a command costs in request units. docs/request-units.md has it as a table, which a
// test compares with the prices here.
//
// Guarantees: (R1) a price depends only on the logical bytes and rows of a command and of what it examines (see
// row.Size), never on operands, deleted rows, caches, compaction, or on which replica is asked: the same statement over
// the same data costs the same. (R2) Prices add up exactly: all of them are whole numbers of Units, so it makes no
// difference where a sum is cut, between partitions or between commands of one request.
//
// A row's logical bytes are its partition key, its clustering key and row.Size. Deletions that a read walks over cost
// nothing: whoever deletes has paid, because how many of them are left depends on when they were swept. Start at Units,
// then Write and Meter.
package ru

import (
	"bytes"
	"math"
	"strconv"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// Units is an amount of request units, in parts of Unit.
type Units int64

// Unit is one request unit: the least number of which all prices are whole parts.
const Unit Units = 281_600

const (
	kb = 1024

	// PointRead is a read of one row of up to a KB, and of none. It is also what a read of rows of one logical
	// partition begins with.
	PointRead = Unit
	// Partition is what a read without a partition key costs for each physical partition.
	Partition = Unit * 5 / 2
	// ReadRow is a row that a read examines where it is not the only one.
	ReadRow = Unit / 50
	// ReadKB and WriteKB are a KB beyond the first of a point read or a slice, and beyond the first of each row that is
	// written. All KB of a scan cost ReadKB.
	ReadKB  = kb * readByte
	WriteKB = kb * writeByte
	// WriteRow is a row of up to a KB that is written, a deletion or a static row.
	WriteRow = 5 * Unit
	// WriteIndex is an entry of an index.
	WriteIndex = Unit / 2
	// Serial is by what reads at SERIAL and LOCAL_SERIAL are multiplied, and what a condition reads.
	Serial = 2

	readByte  = Unit / (11 * kb)
	writeByte = 5 * Unit / (11 * kb)
)

// evaluationSteps is how much work on what was read costs a request unit, in steps of package meter.
const evaluationSteps = 10_000

// Evaluation is the price of work beyond what the reads of a request pay for, in steps of package meter.
func Evaluation(steps int64) Units { return Units(steps/evaluationSteps) * Unit }

// Float is the amount in request units, as clients are told.
func (u Units) Float() float64 { return float64(u) / float64(Unit) }

// Of is the most that is not above an amount of request units, which is at least one Units.
func Of(amount float64) Units {
	return Units(max(1, min(math.Floor(amount*float64(Unit)+1e-6), 1<<62)))
}

// String is the amount in request units, to the thousandth.
func (u Units) String() string {
	return strconv.FormatFloat(math.Round(u.Float()*1000)/1000, 'f', -1, 64)
}

// beyond is the price of the bytes after the first KB.
func beyond(bytes int64, each Units) Units { return Units(max(0, bytes-kb)) * each }

// Row is the price of writing one row of so many logical bytes, key included.
func Row(bytes int64) Units { return WriteRow + beyond(bytes, writeByte) }

// Write is the price of a mutation, and the number of its logical bytes. Operands of one row that follow each other are
// one row.
func Write(m *command.Mutation) (price Units, bytes int64) {
	var last *command.Op
	var inRow int64
	for i := range m.Ops {
		op := &m.Ops[i]
		n := int64(len(m.Key) + len(op.Clustering))
		switch op.Kind {
		case command.OpIndex:
			price += WriteIndex
			bytes += n + int64(len(op.Value))
			continue
		case command.OpChange: // as with Cosmos DB, the change log has no price of its own
			if len(op.Operand) > 0 {
				bytes += n + int64(row.Size(op.Operand))
			}
			continue
		}
		size := int64(row.Size(op.Operand))
		if last == nil || !SameRow(last, op) {
			price += WriteRow + beyond(inRow, writeByte)
			inRow = n
		} else {
			n = 0
		}
		last = op
		inRow += size
		bytes += n + size
	}
	return price + beyond(inRow, writeByte), bytes
}

// SameRow reports whether two operands of a mutation that follow each other, index entries left out, are of one row,
// which is paid for once.
func SameRow(a, b *command.Op) bool {
	return a.Kind == b.Kind && bytes.Equal(a.Clustering, b.Clustering)
}

// Meter counts what a read of one physical partition examines: whatever it passes on, also if that does not match a
// filter in the end. Its zero value is for the next read.
type Meter struct {
	// Rows and Bytes are the rows passed on, static ones included, and their logical bytes. A read of nothing but
	// partitions counts those.
	Rows, Bytes int64
	key         int
}

// Partition notes that a read has come to a logical partition; static is nil if there is no static row for the reader.
func (m *Meter) Partition(c *command.Read, key []byte, static *row.Row) {
	m.key = len(key)
	switch {
	case static != nil:
		m.Rows++
		m.Bytes += int64(m.key + static.Size())
	case c.NoRows:
		m.Rows++
		m.Bytes += int64(m.key)
	}
}

// Row notes a row.
func (m *Meter) Row(clustering []byte, r *row.Row) {
	m.Rows++
	m.Bytes += int64(m.key + len(clustering) + r.Size())
}

// entriesPart is the part of the bytes of an entry of an index of vectors that a search pays for: most are compared by
// the block, which takes less than that of the time that it takes to read them.
const entriesPart = 8

// Entries notes entries of an index of vectors that were looked at: each costs a part of its bytes.
func (m *Meter) Entries(c *command.Read, n int) {
	if c.Index != nil && c.Index.Near != nil {
		m.Bytes += int64(n) * int64(vector.EntryLen(len(c.Index.Near)/4)) / entriesPart
	}
}

// Price is what c costs that has examined so much. A peek costs a point read and its rows but the first, at any level:
// nothing of them is given to anybody.
func (m *Meter) Price(c *command.Read) Units {
	var u Units
	switch {
	case c.Peek:
		if u = Units(max(0, m.Rows-1)) * ReadRow; !c.Continued {
			u += PointRead
		}
		return u
	case c.Key == nil:
		u = Units(m.Rows)*ReadRow + Units(m.Bytes)*readByte
		if !c.Continued {
			u += Partition
		}
	case c.Continued:
		u = Units(m.Rows)*ReadRow + Units(m.Bytes)*readByte
	case m.Rows > 1:
		u = PointRead + Units(m.Rows)*ReadRow + beyond(m.Bytes, readByte)
	default:
		u = PointRead + beyond(m.Bytes, readByte)
	}
	if c.Level.IsSerial() {
		u *= Serial
	}
	return u
}

// Point is the price of looking a row up for a condition or an update: bytes are its logical bytes, 0 if it is not
// there. serial says that it is for a condition.
func Point(bytes int64, serial bool) Units {
	u := PointRead + beyond(bytes, readByte)
	if serial {
		u *= Serial
	}
	return u
}

// Found is the price of the rows that a conditional looks at, nil for those that are not there.
func Found(c *command.Conditional, found []*row.Row) (u Units) {
	for i, r := range found {
		bytes := int64(0)
		if r != nil {
			bytes = int64(len(c.Mutation.Key) + len(c.Rows[i].Clustering) + r.Size())
		}
		u += Point(bytes, len(c.Conditions) > 0)
	}
	return u
}

// Exceeded is the refusal of a request that costs at least so much, though its client allows no more than most. Drivers
// do not send again what was refused as invalid.
func Exceeded(least, most Units) error {
	return dberr.Invalidf("The request costs more than its MaxRequestCharge allows: at least %s request units, %s are "+
		"allowed. Nothing was done", least, most)
}

// Charged is a visitor or a completion that wants to know what its command has cost. Charge is called before a good end
// is told, once for each physical partition that took part; what was done in vain and has to be done again costs
// nothing.
type Charged interface{ Charge(u Units) }

// Tell tells a visitor or a completion what its command has cost, if it wants to know.
func Tell(who any, u Units) {
	if c, ok := who.(Charged); ok {
		c.Charge(u)
	}
}
