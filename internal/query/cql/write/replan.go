// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"math"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Replan plans part of a recorded batch again for a schema. It computes new index entries, enables or disables change
// logging, and sets the table revision. It does not modify the row changes. If the table does not exist, Replan returns
// coordinator.ErrUnknownTable.
//
// Replan is required if an index is created after a batch has been planned and before the batch is applied. The index
// builder may already have passed the rows of the batch.
func Replan(s *schema.Schema, c *command.Conditional) error {
	m := &c.Mutation
	t := s.TableByID(m.Table)
	if t == nil {
		return coordinator.ErrUnknownTable
	}
	ops := slices.DeleteFunc(slices.Clone(m.Ops), func(o command.Op) bool { return o.Kind == command.OpIndex })
	var entries []command.Op
	for i := range ops {
		for _, ix := range indexesOf(t) {
			more, err := entriesOf(t, ix, m.Key, &ops[i])
			if err != nil {
				return err
			}
			entries = append(entries, more...)
		}
	}
	more, err := hintsOf(s, t, ops, c)
	if err != nil {
		return err
	}
	entries = append(entries, more...)
	for i := range c.Updates {
		more, err := updateEntries(t, m.Key, &c.Updates[i], c.Rows)
		if err != nil {
			return err
		}
		entries = append(entries, more...)
	}
	m.Ops, m.SchemaVersion = append(ops, entries...), t.Revision
	c.Log = logOf(t)
	return nil
}

// inspectionTimestamp replaces the timestamp of an operand that is decoded only for inspection.
const inspectionTimestamp = 1 << 40

// entriesOf returns the entries of one index for the values that an operand writes.
func entriesOf(t *schema.Table, ix *index, key []byte, o *command.Op) ([]command.Op, error) {
	static := o.Kind == command.OpHeader
	if static != (ix.column.Kind == schema.Static) && ix.column.Kind != schema.PartitionKey {
		return nil, nil
	}
	operand := bytes.Clone(o.Operand)
	row.Stamp(operand, inspectionTimestamp)
	if static {
		var h row.Header
		if err := h.Resolve(operand, math.MinInt64, nil); err != nil {
			return nil, err
		}
		if !h.Static.Exists() {
			return nil, nil
		}
		return expr.IndexOps(t, ix.Index, key, nil, &h.Static)
	}
	var r row.Row
	exists, err := r.Resolve(operand, row.NotDeleted, math.MinInt64, nil)
	if !exists || err != nil {
		return nil, err
	}
	return expr.IndexOps(t, ix.Index, key, o.Clustering, &r)
}

// updateEntries returns the index entries for the list elements that an update may write. If the update may create the
// row, updateEntries also returns the entries of indexes on key columns.
func updateEntries(t *schema.Table, key []byte, u *command.Update, rows []command.RowRef) ([]command.Op, error) {
	var values [][]byte
	switch u.Kind {
	case command.ListSetAt:
		values = u.Args[1:]
	case command.ListPut:
		for i := 1; i < len(u.Args); i += 2 {
			values = append(values, u.Args[i])
		}
	}
	var ops []command.Op
	for _, ix := range indexesOf(t) {
		if u.Kind == command.ListPut && ix.column.Kind.IsKey() {
			more, err := expr.IndexOps(t, ix.Index, key, rows[u.Row].Clustering, &row.Row{})
			if err != nil {
				return nil, err
			}
			ops = append(ops, more...)
		}
		if ix.column.ID != u.Column {
			continue
		}
		for _, v := range values {
			if v != nil {
				ops = append(ops, command.Op{Kind: command.OpIndex, Clustering: rows[u.Row].Clustering, Index: ix.ID,
					Value: ix.form.Append(nil, v)})
			}
		}
	}
	return ops, nil
}
