// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"slices"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// condition is a relation of a view's WHERE clause on base key columns. It requires that the values equal one of
// several tuples or are in an interval.
type condition struct {
	columns   []*schema.Column
	any       [][][]byte
	slice     bool
	low, high *bound
}

type bound struct {
	values    [][]byte
	inclusive bool
}

// Check rejects relations that views do not support and relations on unknown base columns.
func Check(rel *compat.Release, relations []parser.Relation, ks *schema.Keyspace, base *schema.Table) error {
	env := expr.NewEnv(rel, ks, base, 0)
	for i := range relations {
		r := &relations[i]
		if r.Kind == parser.TokenRelation {
			return dberr.Invalidf("Cannot use token relation when defining a materialized view")
		}
		if r.Kind == parser.ChangeFeedRelation {
			return dberr.Invalidf("%s() cannot be used when defining a materialized view", r.Columns[0].Name)
		}
		for _, name := range r.Columns {
			if base.ByName[name.Name] == nil {
				return dberr.Invalidf("Undefined column name %s in table %s", name.Name, base)
			}
		}
		if r.Op == parser.IsNotNull {
			continue
		}
		bound, err := relation.Bind(r, env)
		if err != nil {
			return err
		}
		if bound.First().Kind.IsKey() && bound.Kind == relation.Contains {
			return dberr.Invalidf("CONTAINS cannot be used when defining a materialized view")
		}
	}
	return nil
}

// CheckText rejects a WHERE clause whose text does not represent the parsed relations.
func CheckText(ks *schema.Keyspace, base *schema.Table, v *schema.View) error {
	if _, err := conditionsOf(ks, base, v); err != nil {
		return dberr.Invalidf("The WHERE clause of a materialized view cannot be stored as text: %s", err)
	}
	return nil
}

// conditionsOf binds the relations of a view. A comparison with null is false for every row.
func conditionsOf(ks *schema.Keyspace, base *schema.Table, v *schema.View) ([]condition, error) {
	if !slices.ContainsFunc(v.Where, func(r schema.ViewRelation) bool { return !r.NotNull }) {
		return nil, nil // most views take this path, which does not parse the text
	}
	stmt, _, err := parser.Parse("SELECT * FROM t WHERE " + v.WhereText())
	if err != nil {
		return nil, err
	}
	env := expr.NewEnv(compat.Cassandra50, ks, base, 0)
	var out []condition
	sel := stmt.(*parser.Select)
	for i := range sel.Where {
		r := &sel.Where[i]
		if r.Op == parser.IsNotNull {
			continue
		}
		bound, err := relation.Bind(r, env)
		if err != nil {
			return nil, err
		}
		out = append(out, conditionOf(bound))
	}
	return out, nil
}

func conditionOf(r *relation.Restriction) condition {
	c := condition{columns: r.Columns, slice: r.Kind == relation.Slice}
	var b expr.Bindings
	if !c.slice {
		c.any, _ = r.Tuples(&b)
		return c
	}
	for _, side := range []struct {
		from *relation.Bound
		to   **bound
	}{{r.Low, &c.low}, {r.High, &c.high}} {
		if side.from == nil {
			continue
		}
		values, err := side.from.Eval(nil, r.Columns, &b)
		if err != nil {
			return condition{}
		}
		*side.to = &bound{values, side.from.Inclusive}
	}
	return c
}

// holds reports whether a base row with the given key column values satisfies the WHERE clause.
func (v *View) holds(w *values) bool {
	for i := range v.where {
		if !v.where[i].holds(w) {
			return false
		}
	}
	return true
}

func (c *condition) holds(w *values) bool {
	if c.slice {
		if c.low != nil {
			if n := c.compare(w, c.low.values); n < 0 || n == 0 && !c.low.inclusive {
				return false
			}
		}
		if c.high != nil {
			if n := c.compare(w, c.high.values); n > 0 || n == 0 && !c.high.inclusive {
				return false
			}
		}
		return c.low != nil || c.high != nil
	}
	for _, tuple := range c.any {
		if len(tuple) == len(c.columns) && c.compare(w, tuple) == 0 {
			return true
		}
	}
	return false
}

// compare compares the row's values with a tuple column by column.
func (c *condition) compare(w *values, tuple [][]byte) int {
	for i, value := range tuple {
		have := w.of(c.columns[i])
		if bytes.Equal(have, value) {
			continue
		}
		if n := c.columns[i].Type.Compare(have, value); n != 0 {
			return n
		}
	}
	return 0
}
