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

// fillResult encodes the result of a conditional execution: [applied] and, if the conditions were not satisfied, the
// existing rows that they were checked against. There is only one group, because conditions do not span partitions.
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
	if g.conditional.First != command.NoFirst {
		return x.fillFirst(g)
	}
	slices.SortStableFunc(g.checked, func(a, b checkedRow) int {
		return bytes.Compare(g.rows[a.row].Clustering, g.rows[b.row].Clustering)
	})
	static := g.found(g.static)
	for _, c := range g.checked {
		if r := g.found(c.row); r != nil && !g.rows[c.row].Static {
			if err := x.fillRow(g, g.rows[c.row].Clustering, r, static); err != nil {
				return err
			}
		}
	}
	if o.RowCount == 0 && x.shows(static) {
		return x.fillRow(g, nil, nil, static) // only the static row exists
	}
	if o.RowCount == 0 {
		x.fillNotApplied()
	}
	return nil
}

// fillNotApplied sets a result without rows, in which [applied] is false.
func (x *Execution) fillNotApplied() {
	o := &x.outcome
	o.Columns, o.RowCount = x.columns, 1
	o.Cells = cqltype.AppendValue(o.Cells[:0], cellFalse)
}

// fillFirst encodes the result of conditions on static columns: the static row and a row of the partition, if they
// exist.
func (x *Execution) fillFirst(g *group) error {
	var static, r *row.Row
	for _, c := range g.checked {
		static = cmp.Or(static, g.found(c.row))
	}
	var clustering []byte
	if g.decision != nil && g.decision.First != nil {
		clustering = g.decision.First.Clustering
		if g.conditional.First == command.FirstRow {
			r = g.decision.First.Row
		}
	} else if !x.shows(static) {
		x.fillNotApplied()
		return nil
	}
	return x.fillRow(g, clustering, r, static)
}

// shows reports whether a static row has a value in any of the static columns that are read. As in Cassandra, all
// static columns are read if a conditional statement writes one of them. Otherwise only the static columns of
// conditions are read. If no column has a value, the partition does not exist for the result.
func (x *Execution) shows(static *row.Row) bool {
	g := &x.groups[0]
	read := g.statics
	if x.static {
		read = g.table.Statics
	}
	stored := func(c *schema.Column) bool { return len(static.Column(c.ID)) > 0 }
	return static != nil && slices.ContainsFunc(read, stored)
}

// maskBytes and maskSteps limit the evaluation of a mask.
const maskBytes, maskSteps = 16 << 20, 5_000_000

// fillRow encodes one existing row. The columns are looked up by name, because a batch combines the columns of several
// plans.
func (x *Execution) fillRow(g *group, clustering []byte, r, static *row.Row) error {
	o := &x.outcome
	o.RowCount++
	o.Cells = cqltype.AppendValue(o.Cells, cellFalse)
	for i := range o.Columns[1:] {
		c := g.table.ByName[o.Columns[1+i].Name]
		v, err := g.value(c, clustering, r, static)
		if err == nil && c.Mask != nil && !x.clear {
			// The meter of the request is not used, because completing a write must not block.
			m := meter.New(context.Background(), meter.Limits{Bytes: maskBytes, Steps: maskSteps})
			v, err = g.masks[c].Apply(v, m)
		}
		if err != nil {
			return err
		}
		o.Cells = cqltype.AppendValue(o.Cells, v)
	}
	return nil
}

func (g *group) value(col *schema.Column, clustering []byte, r, static *row.Row) ([]byte, error) {
	switch col.Kind {
	case schema.PartitionKey:
		return expr.PartitionKeyValue(g.table, g.key, col.Position)
	case schema.Clustering:
		return expr.ClusteringValue(g.table, clustering, col.Position)
	case schema.Static:
		if r = static; !g.x.static && !slices.Contains(g.statics, col) {
			return nil, nil
		}
	}
	if r == nil {
		return nil, nil
	}
	return expr.ColumnValue(col, r)
}
