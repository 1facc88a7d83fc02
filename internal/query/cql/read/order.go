// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// orderColumn is one column of ORDER BY.
type orderColumn struct {
	column     *schema.Column
	descending bool
}

// ordering is the ORDER BY clause on clustering columns.
type ordering struct {
	// reversed reports whether partitions are read in reverse order.
	reversed bool
	// sort lists the positions of the clustering columns that are used to sort the rows after the read. It is used for
	// an ORDER BY of several partitions.
	sort []int
}

// orderingColumns returns the columns of ORDER BY. As in Cassandra, a repeated column keeps its first position and
// takes the last direction.
func orderingColumns(stmt *parser.Select, table *schema.Table) ([]orderColumn, error) {
	var out []orderColumn
	for _, o := range stmt.OrderBy {
		if o.ANN != nil {
			return nil, nil // see bindANN
		}
		c, err := expr.FindColumn(table, o.Column)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(out, func(o orderColumn) bool { return o.column == c }); i >= 0 {
			out[i].descending = o.Descending
			continue
		}
		out = append(out, orderColumn{c, o.Descending})
	}
	return out, nil
}

// bindDistinct checks SELECT DISTINCT.
func (p *Plan) bindDistinct(stmt *parser.Select) error {
	if !p.distinct {
		return nil
	}
	if stmt.PerPartitionLimit != nil {
		return dberr.Invalidf("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries")
	}
	// In a compact table without clustering columns, each logical partition is one row, and the columns count as
	// static.
	flat := p.table.CompactStorage && len(p.table.Clustering) == 0
	p.distinct = !flat
	if !flat && !p.where.wholePartitions() {
		return dberr.Invalidf("SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.")
	}
	for _, c := range p.sel.selected {
		if c.Kind != schema.PartitionKey && c.Kind != schema.Static && !flat {
			return notDistinct(c)
		}
	}
	if !p.where.keyRange {
		return nil
	}
	for _, c := range p.table.PartitionKey {
		if !slices.Contains(p.sel.selected, c) {
			return dberr.Invalidf("SELECT DISTINCT queries must request all the partition key columns (missing %s)",
				c.Name)
		}
	}
	return nil
}

func notDistinct(c *schema.Column) error {
	return dberr.Invalidf("SELECT DISTINCT queries must only request partition key columns and/or static columns (not %s)", c.Name)
}

// bindOrder checks ORDER BY. The clause must list clustering columns in key order. Either all columns must have the
// declared direction, or all columns must have the opposite direction.
func (p *Plan) bindOrder(by []orderColumn, plainText bool) error {
	if len(by) == 0 {
		return nil
	}
	if p.where.indexed {
		if plainText {
			return dberr.Invalidf("ORDER BY with 2ndary indexes is not supported.")
		}
		return dberr.Invalidf("ORDER BY with 2ndary indexes is not supported, except for ANN queries.")
	}
	if p.where.keyRange {
		return dberr.Invalidf("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.")
	}
	next := 0
	var reversed []bool
	for _, o := range by {
		c := o.column
		if c.Kind != schema.Clustering {
			return dberr.Invalidf("Order by is currently only supported on the clustered columns of the PRIMARY KEY, got %s", c.Name)
		}
		for next != c.Position {
			if next >= len(p.table.Clustering) || !p.where.fixed(p.table.Clustering[next]) {
				return dberr.Invalidf("Order by currently only supports the ordering of columns following their " +
					"declared order in the PRIMARY KEY")
			}
			next++
		}
		next++
		reversed = append(reversed, o.descending != c.Desc)
		if p.where.pk.Has(relation.In) {
			if p.distinct {
				return notDistinct(c) // the sort columns must be selected
			}
			p.order.sort = append(p.order.sort, c.Position)
		}
	}
	for _, r := range reversed {
		if r != reversed[0] {
			return dberr.Invalidf("Unsupported order by relation")
		}
	}
	p.order.reversed = reversed[0]
	return nil
}

// limitClause holds LIMIT, PER PARTITION LIMIT, and USING TIMEOUT. A field is nil if the statement does not contain the
// clause.
type limitClause struct {
	rows, perPartition, timeout expr.Term
	// rowsText and perPartitionText are the texts of the limits, for Explain.
	rowsText, perPartitionText string
}

// bindLimits binds LIMIT, PER PARTITION LIMIT, and USING TIMEOUT.
func (p *Plan) bindLimits(stmt *parser.Select, env *expr.Env) error {
	bind := func(t parser.Term, name string) (expr.Term, error) {
		if t == nil {
			return nil, nil
		}
		return expr.Bind(t, expr.Receiver{Name: name, Type: cqltype.Native(cqltype.Int)}, env)
	}
	if stmt.Limit != nil {
		p.limits.rowsText = expr.Text(stmt.Limit)
	}
	if stmt.PerPartitionLimit != nil {
		p.limits.perPartitionText = expr.Text(stmt.PerPartitionLimit)
	}
	var err error
	if p.limits.rows, err = bind(stmt.Limit, "[limit]"); err != nil {
		return err
	}
	if p.limits.perPartition, err = bind(stmt.PerPartitionLimit, "[per_partition_limit]"); err != nil {
		return err
	}
	p.limits.timeout, err = expr.BindTimeout(stmt.Timeout, env)
	return err
}

// unlimited is the limit if the query has no LIMIT.
const unlimited = 1<<63 - 1

func evalLimit(t expr.Term, b *expr.Bindings) (int64, error) {
	if t == nil {
		return unlimited, nil
	}
	v, state, err := t.Eval(b)
	switch {
	case err != nil:
		return 0, err
	case state == expr.Unset:
		return unlimited, nil
	case state == expr.Null:
		return 0, dberr.Invalidf("Invalid null value of limit")
	case len(v) != 4:
		return 0, dberr.Invalidf("Invalid limit value")
	}
	n := int32(uint32(v[0])<<24 | uint32(v[1])<<16 | uint32(v[2])<<8 | uint32(v[3]))
	if n <= 0 {
		return 0, dberr.Invalidf("LIMIT must be strictly positive")
	}
	return int64(n), nil
}
