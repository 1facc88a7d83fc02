// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

var (
	cellTrue  = []byte{1}
	cellFalse = []byte{0}
)

// conditionalResult encodes the result of a conditional execution.
type conditionalResult struct {
	*Outcome
	// group is the only group, because a conditional execution changes only one partition. If the statement selects no
	// partition, group is nil.
	group *group
	// applied and found describe the columns of the result. See Plan.
	applied, found []Column
	// static reports whether the execution writes static columns.
	static bool
	// clear is Request.Clear.
	clear bool
}

// fill encodes [applied]. If the conditions were not satisfied, fill also encodes the existing rows that were checked.
func (r *conditionalResult) fill() error {
	g := r.group
	if g == nil { // the statement contains IN ()
		r.fillApplied(cellFalse)
		return nil
	}
	if r.Applied = g.decision != nil && g.decision.Applied; r.Applied {
		r.fillApplied(cellTrue)
		return nil
	}
	r.Columns = r.found
	if g.conditional.First != command.NoFirst {
		return r.fillFirst()
	}
	slices.SortStableFunc(g.checked, func(a, b checkedRow) int {
		return bytes.Compare(g.rows[a.row].Clustering, g.rows[b.row].Clustering)
	})
	static := g.found(g.static)
	for _, c := range g.checked {
		if stored := g.found(c.row); stored != nil && !g.rows[c.row].Static {
			if err := r.fillRow(g.rows[c.row].Clustering, stored, static); err != nil {
				return err
			}
		}
	}
	if r.RowCount == 0 && r.shows(static) {
		return r.fillRow(nil, nil, static) // only the static row exists
	}
	if r.RowCount == 0 {
		r.fillApplied(cellFalse)
	}
	return nil
}

// fillApplied sets a result that consists only of [applied].
func (r *conditionalResult) fillApplied(applied []byte) {
	r.Columns, r.RowCount = r.applied, 1
	r.Cells = cqltype.AppendValue(r.Cells[:0], applied)
}

// fillFirst encodes the result of conditions on static columns. The result contains the static row and a row of the
// partition, if these rows exist.
func (r *conditionalResult) fillFirst() error {
	g := r.group
	var static, first *row.Row
	for _, c := range g.checked {
		static = cmp.Or(static, g.found(c.row))
	}
	var clustering []byte
	if g.decision != nil && g.decision.First != nil {
		clustering = g.decision.First.Clustering
		if g.conditional.First == command.FirstRow {
			first = g.decision.First.Row
		}
	} else if !r.shows(static) {
		r.fillApplied(cellFalse)
		return nil
	}
	return r.fillRow(clustering, first, static)
}

// shows reports whether a static row has a value in any static column that is read. As in Cassandra, all static columns
// are read if a conditional statement writes a static column. Otherwise, only the static columns of conditions are
// read. If no column has a value, the result treats the partition as missing.
func (r *conditionalResult) shows(static *row.Row) bool {
	read := r.group.statics
	if r.static {
		read = r.group.table.Statics
	}
	stored := func(c *schema.Column) bool { return len(static.Column(c.ID)) > 0 }
	return static != nil && slices.ContainsFunc(read, stored)
}

// maskBytes and maskSteps limit the evaluation of a mask.
const maskBytes, maskSteps = 16 << 20, 5_000_000

// fillRow encodes one existing row. It finds the columns by name, because a batch combines the columns of several
// plans.
func (r *conditionalResult) fillRow(clustering []byte, stored, static *row.Row) error {
	g := r.group
	r.RowCount++
	r.Cells = cqltype.AppendValue(r.Cells, cellFalse)
	for i := range r.Columns[1:] {
		c := g.table.ByName[r.Columns[1+i].Name]
		v, err := r.value(c, clustering, stored, static)
		if err == nil && c.Mask != nil && !r.clear {
			// The request's meter cannot be used, because completing a write must not block.
			m := meter.New(context.Background(), meter.Limits{Bytes: maskBytes, Steps: maskSteps})
			v, err = g.masks[c].Apply(v, m)
		}
		if err != nil {
			return err
		}
		r.Cells = cqltype.AppendValue(r.Cells, v)
	}
	return nil
}

func (r *conditionalResult) value(col *schema.Column, clustering []byte, stored, static *row.Row) ([]byte, error) {
	g := r.group
	switch col.Kind {
	case schema.PartitionKey:
		return expr.PartitionKeyValue(g.table, g.key, col.Position)
	case schema.Clustering:
		return expr.ClusteringValue(g.table, clustering, col.Position)
	case schema.Static:
		if stored = static; !r.static && !slices.Contains(g.statics, col) {
			return nil, nil
		}
	}
	if stored == nil {
		return nil, nil
	}
	return expr.ColumnValue(col, stored)
}
