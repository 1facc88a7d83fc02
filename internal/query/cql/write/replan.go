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

// Replan updates part of a recorded batch to a schema. It recomputes the index entries for the current indexes and
// enables or disables change logging. It also sets the table revision. The row changes are not modified. The error is
// coordinator.ErrUnknownTable if the table does not exist.
//
// Replan is required for a batch that was planned before an index was created and is applied after the index was
// created. The index builder may already have passed the rows of the batch.
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

// updateEntries returns the index entries for the elements that an update may write to a list. If the update may create
// the row, it also returns the entries of indexes on key columns.
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
