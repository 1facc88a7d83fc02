// SPDX-License-Identifier: Apache-2.0

// Package ru defines the prices of commands in request units. docs/request-units.md documents them in a table, which a
// test compares with this package.
//
// Guarantees:
//
//   - (R1) A price depends only on the logical bytes and rows of a command, and on the data that the command examines
//     (see row.Size). It does not depend on operands, deleted rows, caches, compaction, or the replica. The same
//     statement over the same data therefore has the same price.
//   - (R2) Prices add up exactly because all prices are integers in Units. The division of a request into partitions
//     or commands does not change the total.
//
// The logical bytes of a row consist of its partition key, its clustering key, and row.Size. Deletions that a read
// skips are free, because their number depends on the time of sweeps. In addition, the client that deleted the data
// has already been charged. Start reading at Units, and continue with Write and Meter.
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

// Units is an amount of request units, in fractions of Unit.
type Units int64

// Unit is one request unit. It is the smallest number for which all prices are whole Units.
const Unit Units = 281_600

const (
	kb = 1024

	// PointRead is the price of reading one row of up to 1 KB or a missing row. It is also the base price of reading
	// rows from one logical partition.
	PointRead = Unit
	// Partition is the price per physical partition of a read without a partition key.
	Partition = Unit * 5 / 2
	// ReadRow is the price of each row that a read of several rows examines.
	ReadRow = Unit / 50
	// ReadKB is the price of each KB after the first KB of a point read or a slice. In a scan, it applies to every KB.
	ReadKB = kb * readByte
	// WriteKB is the price of each KB after the first KB of a written row.
	WriteKB = kb * writeByte
	// WriteRow is the price of writing a row of up to 1 KB, a deletion, or a static row.
	WriteRow = 5 * Unit
	// WriteIndex is the price of an index entry.
	WriteIndex = Unit / 2
	// WriteTerm is the price of an index entry for a term of a text.
	WriteTerm = Unit / 20
	// Serial is the price factor for reads at SERIAL and LOCAL_SERIAL, and for the reads of a condition.
	Serial = 2

	readByte  = Unit / (11 * kb)
	writeByte = 5 * Unit / (11 * kb)
)

// evaluationSteps is the number of steps of package meter that cost one request unit.
const evaluationSteps = 10_000

// Evaluation returns the price of work in addition to the work that the reads of the request pay for. The work is
// given in steps of package meter.
func Evaluation(steps int64) Units { return Units(steps/evaluationSteps) * Unit }

// Float returns the amount in request units, which is the unit in reports to clients.
func (u Units) Float() float64 { return float64(u) / float64(Unit) }

// Of converts an amount of request units to Units. It rounds down, but the result is at least 1.
func Of(amount float64) Units {
	return Units(max(1, min(math.Floor(amount*float64(Unit)+1e-6), 1<<62)))
}

// String returns the amount in request units, rounded to thousandths.
func (u Units) String() string {
	return strconv.FormatFloat(math.Round(u.Float()*1000)/1000, 'f', -1, 64)
}

// beyond returns the price of the bytes after the first KB.
func beyond(bytes int64, each Units) Units { return Units(max(0, bytes-kb)) * each }

// Row returns the price of writing one row with the given number of logical bytes. The number includes the key.
func Row(bytes int64) Units { return WriteRow + beyond(bytes, writeByte) }

// Write returns the price of a mutation and the number of its logical bytes. Consecutive operands of one row count as
// one row.
func Write(m *command.Mutation) (price Units, bytes int64) {
	var last *command.Op
	var inRow int64
	for i := range m.Ops {
		op := &m.Ops[i]
		n := int64(len(m.Key) + len(op.Clustering))
		switch op.Kind {
		case command.OpIndex:
			if len(op.Value) > 0 && op.Value[0] == command.TermMark {
				price += WriteTerm
			} else {
				price += WriteIndex
			}
			bytes += n + int64(len(op.Value))
			continue
		case command.OpChange: // the change log is free, as in Cosmos DB
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

// SameRow reports whether two operands of a mutation belong to the same row. Such operands are charged once. The
// operands must be consecutive except for index entries.
func SameRow(a, b *command.Op) bool {
	return a.Kind == b.Kind && bytes.Equal(a.Clustering, b.Clustering)
}

// Meter counts the data that a read of one physical partition examines. Meter counts all data passed to it, even if a
// filter later discards the data. The zero value is ready for use.
type Meter struct {
	// Rows is the number of rows, including static rows. Bytes is the sum of their logical bytes. In a read that
	// returns only partitions, Rows counts the partitions.
	Rows, Bytes int64
	key         int
}

// Partition records the start of a logical partition. static is nil if the reader does not receive a static row.
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

// Row records a row.
func (m *Meter) Row(clustering []byte, r *row.Row) {
	m.Rows++
	m.Bytes += int64(m.key + len(clustering) + r.Size())
}

// entriesPart is the divisor for the bytes of a vector index entry that a search examines. Most entries are compared
// in blocks. The speedup over individual reads is larger than this factor.
const entriesPart = 8

// Entries records n examined entries of a vector index. The price of each entry is a fraction of its bytes.
func (m *Meter) Entries(c *command.Read, n int) {
	if c.Index != nil && c.Index.Vector != nil {
		m.Bytes += int64(n) * int64(vector.EntryLen(len(c.Index.Vector)/4)) / entriesPart
	}
}

// Price returns the price of c for the recorded data. A peek returns no data, so its price does not depend on the
// consistency level. The price is a point read and all rows except the first row.
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

// Point returns the price of looking up a row for a condition or an update. bytes is the row's logical size, or 0 if
// the row is missing. serial is true for a condition.
func Point(bytes int64, serial bool) Units {
	u := PointRead + beyond(bytes, readByte)
	if serial {
		u *= Serial
	}
	return u
}

// Found returns the price of the rows that a conditional reads. Missing rows are nil.
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

// Exceeded returns the error for a request that costs at least least units, although its client allows at most most
// units. Drivers do not retry invalid requests.
func Exceeded(least, most Units) error {
	return dberr.Invalidf("The request exceeds its MaxRequestCharge: it costs at least %s request units, but only "+
		"%s are "+
		"allowed. It was not executed", least, most)
}

// Charged is a visitor or a completion that receives the cost of its command. Before a successful completion, Charge
// is called once for each physical partition involved. Attempts that must be repeated are not charged.
type Charged interface{ Charge(u Units) }

// Tell reports the cost of a command to a visitor or completion if it implements Charged.
func Tell(who any, u Units) {
	if c, ok := who.(Charged); ok {
		c.Charge(u)
	}
}
