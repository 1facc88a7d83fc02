// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// BatchLog makes and reads the rows of system.batches: one for each atomic batch over several physical partitions that
// is under way. A row has the batch's id as its key and what it does, as the coordinator encodes it, in the column
// data. It is safe for concurrent use.
type BatchLog struct {
	table  *schema.Table
	column uint32
}

// NewBatchLog makes a BatchLog over system.batches of a schema, which is in every schema of a catalog.
func NewBatchLog(s *schema.Schema) *BatchLog {
	t := s.Table("system", "batches")
	return &BatchLog{table: t, column: t.Column("data").ID}
}

// Table is the table's id.
func (l *BatchLog) Table() uint32 { return l.table.ID }

// ForCoordinator is the log as the coordinator wants it; now returns the schema as it is when it is called.
func (l *BatchLog) ForCoordinator(now func() *schema.Schema) *coordinator.BatchLog {
	return &coordinator.BatchLog{
		Table: l.Table(), Record: l.Record, Remove: l.Remove,
		Replan: func(part *command.Conditional) error { return Replan(now(), part) },
	}
}

// Record makes the row of a batch. stamp is that of the batch, in microseconds since the epoch; data is referenced.
func (l *BatchLog) Record(id [16]byte, stamp int64, data []byte) command.Mutation {
	var b row.Builder
	b.Reset(stamp)
	b.Live(0, 0)
	b.Cell(l.column, nil, data, 0, 0)
	return l.mutation(id, &b)
}

// Remove deletes the row of a batch, whichever of the two comes first. stamp is that of the batch.
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

// Decode reads a row that was found. data points into it. ok is false if it is none that Record makes.
func (l *BatchLog) Decode(key []byte, r *row.Row) (id [16]byte, stamp int64, data []byte, ok bool) {
	c := r.Cell(l.column)
	if len(key) != len(id) || c == nil {
		return id, 0, nil, false
	}
	return [16]byte(key), c.Timestamp, c.Value, true
}
