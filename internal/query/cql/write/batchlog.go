// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// BatchLog creates and reads the rows of system.batches. The table contains one row for each atomic batch in progress
// that writes to several physical partitions. The key of a row is the batch ID. The column data holds the batch in the
// coordinator's encoding. BatchLog is safe for concurrent use.
type BatchLog struct {
	catalog *catalog.Catalog
	table   *schema.Table
	column  uint32
}

// NewBatchLog returns a BatchLog for the table system.batches. Every schema of a catalog contains this table.
func NewBatchLog(c *catalog.Catalog) *BatchLog {
	t := c.Snapshot().Table("system", "batches")
	return &BatchLog{catalog: c, table: t, column: t.Column("data").ID}
}

// Table returns the ID of the table.
func (l *BatchLog) Table() uint32 { return l.table.ID }

// Replan plans part of a batch again. See the function Replan.
func (l *BatchLog) Replan(part *command.Conditional) error { return Replan(l.catalog.Snapshot(), part) }

// Record returns the mutation that writes the row of a batch. stamp is the timestamp of the batch in microseconds. The
// mutation refers to the memory of data.
func (l *BatchLog) Record(id [16]byte, stamp int64, data []byte) command.Mutation {
	var b row.Builder
	b.Reset(stamp)
	b.Live(0, 0)
	b.Cell(l.column, nil, data, 0, 0)
	return l.mutation(id, &b)
}

// Remove returns the mutation that deletes the row of a batch. The deletion takes effect even if it is applied before
// the mutation of Record. stamp is the timestamp of the batch.
func (l *BatchLog) Remove(id [16]byte, stamp int64) command.Mutation {
	var b row.Builder
	b.Reset(stamp)
	b.DeleteRow(stamp / 1e6)
	return l.mutation(id, &b)
}

func (l *BatchLog) mutation(id [16]byte, b *row.Builder) command.Mutation {
	key := id[:]
	return command.Mutation{
		Table: l.table.ID, Token: token.Hash(key), Key: key, SchemaVersion: l.table.Revision,
		Ops: []command.Op{{Kind: command.OpRow, Operand: b.Append(nil)}},
	}
}

// Decode decodes a row of the table. data refers to the memory of the row. If Record did not create the row, ok is
// false.
func (l *BatchLog) Decode(key []byte, r *row.Row) (id [16]byte, stamp int64, data []byte, ok bool) {
	c := r.Cell(l.column)
	if len(key) != len(id) || c == nil {
		return id, 0, nil, false
	}
	return [16]byte(key), c.Timestamp, c.Value, true
}
