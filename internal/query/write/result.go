// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
)

var (
	cellTrue  = []byte{1}
	cellFalse = []byte{0}
)

// fillResult encodes the rows of a conditional execution: [applied], and with it, where the conditions did not hold, the rows
// that they were checked against as far as they exist. There is one group: conditions do not span partitions.
func (x *Execution) fillResult() error {
	o := &x.outcome
	if x.used == 0 { // IN ()
		o.Columns, o.RowCount = x.columns, 1
		o.Cells = cqltype.AppendValue(o.Cells, cellFalse)
		return nil
	}
	g := &x.groups[0]
	o.Applied = g.decision != nil && g.decision.Applied
	if o.Applied {
		o.Columns, o.RowCount = x.columns, 1
		o.Cells = cqltype.AppendValue(o.Cells, cellTrue)
		return nil
	}
	o.Columns = x.columnsFound
	slices.SortStableFunc(g.checked, func(a, b checkedRow) int {
		return bytes.Compare(g.rows[a.row].Clustering, g.rows[b.row].Clustering)
	})
	for _, c := range g.checked {
		r, static := g.found(c.row), g.found(c.static)
		if r == nil && (static == nil || c.exists == mustExist) {
			continue
		}
		if g.rows[c.row].Static {
			r, static = nil, g.found(c.row)
		}
		if err := x.fillRow(g, c, r, static); err != nil {
			return err
		}
	}
	if o.RowCount == 0 {
		o.Columns, o.RowCount = x.columns, 1
		o.Cells = cqltype.AppendValue(o.Cells[:0], cellFalse)
	}
	return nil
}

// fillRow encodes one row that exists. columnsFound are looked up by name: a batch joins those of several plans.
func (x *Execution) fillRow(g *group, c checkedRow, r, static *row.Row) error {
	o := &x.outcome
	o.RowCount++
	o.Cells = cqltype.AppendValue(o.Cells, cellFalse)
	for i := range o.Columns[1:] {
		v, err := g.value(g.table.ByName[o.Columns[1+i].Name], c, r, static)
		if err != nil {
			return err
		}
		o.Cells = cqltype.AppendValue(o.Cells, v)
	}
	return nil
}

func (g *group) value(col *schema.Column, c checkedRow, r, static *row.Row) ([]byte, error) {
	switch col.Kind {
	case schema.PartitionKey:
		return expr.PartitionKeyValue(g.table, g.key, col.Position)
	case schema.Clustering:
		return expr.ClusteringValue(g.table, g.rows[c.row].Clustering, col.Position)
	case schema.Static:
		r = static
	}
	if r == nil {
		return nil, nil
	}
	return expr.ColumnValue(col, r)
}
