// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

const groupOrder = "Group by currently only support groups of columns following their declared order in the PRIMARY KEY"

// grouping holds the GROUP BY clause and describes the aggregation of rows.
type grouping struct {
	// aggregated reports whether the statement has aggregates or a GROUP BY. grouped reports whether the statement has
	// a GROUP BY.
	aggregated, grouped bool
	// prefix is the number of clustering columns that define the groups of a partition.
	prefix int
	// function is a function of the clustering column after the prefix, or nil. The function's value also defines the
	// groups. text is the function's text in the statement.
	function expr.Term
	text     string
}

// bindGroups checks GROUP BY. The columns must follow the order of the primary key. A key column may be omitted only if
// the column is restricted to one value.
func (p *Plan) bindGroups(stmt *parser.Select, env *expr.Env) error {
	p.groups.grouped = len(stmt.GroupBy) > 0
	p.groups.aggregated = p.groups.grouped || len(p.sel.aggregates) > 0
	if p.groups.aggregated && !p.groups.grouped && stmt.PerPartitionLimit != nil {
		return dberr.Invalidf("PER PARTITION LIMIT is not allowed with aggregate queries.")
	}
	if !p.groups.grouped {
		return nil
	}
	key := slices.Concat(p.table.PartitionKey, p.table.Clustering)
	next := 0
	for _, t := range stmt.GroupBy {
		c, err := p.groupColumn(t, env)
		if err != nil {
			return err
		}
		for {
			if next == len(key) {
				return dberr.Invalidf(groupOrder)
			}
			k := key[next]
			next++
			if k.Kind == schema.Clustering && (k != c || p.groups.function == nil) {
				p.groups.prefix++
			}
			if k == c {
				break
			}
			if !p.where.fixed(k) {
				return dberr.Invalidf(groupOrder)
			}
		}
	}
	if next < len(p.table.PartitionKey) {
		return dberr.Invalidf("Group by is not supported on only a part of the partition key")
	}
	if (p.groups.prefix > 0 || p.groups.function != nil) && p.distinct {
		return dberr.Invalidf("Grouping on clustering columns is not allowed for SELECT DISTINCT queries")
	}
	return nil
}

// groupColumn returns the column of a GROUP BY term. If the term is a function, groupColumn binds the function. A
// function must be the last term.
func (p *Plan) groupColumn(t parser.Term, env *expr.Env) (*schema.Column, error) {
	names := expr.ColumnsIn(t)
	switch t.(type) {
	case *parser.Column, *parser.FunctionCall, *parser.Arithmetic, *parser.Negate:
	default:
		names = nil
	}
	if len(names) != 1 {
		return nil, dberr.Invalidf("GROUP BY functions must have one and only one column as parameter: %s", expr.Text(t))
	}
	c, err := expr.FindColumn(p.table, names[0])
	if err != nil {
		return nil, err
	}
	_, plain := t.(*parser.Column)
	switch {
	case p.groups.function != nil && plain:
		return nil, dberr.Invalidf("Functions are only supported on the last element of the GROUP BY clause")
	case plain && c.Kind != schema.PartitionKey && c.Kind != schema.Clustering:
		return nil, dberr.Invalidf("Group by is currently only supported on the columns of the PRIMARY KEY, got %s",
			c.Name)
	case plain:
		return c, nil
	case c.Kind != schema.Clustering:
		return nil, dberr.Invalidf("Group by functions are only supported on clustering columns, got %s", c.Name)
	}
	p.groups.text = expr.Text(t)
	p.groups.function, err = expr.BindGroup(t, &p.sel, env)
	return c, err
}
