// SPDX-License-Identifier: Apache-2.0

package read

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// Shape describes a kind of read independently of its values.
type Shape struct {
	// Text is the WHERE clause without values. For a read of the whole table, Text is empty.
	Text string
	// Index contains the names of the indexes that are read, or is empty. Equal lists the columns with equality
	// restrictions.
	Index string
	Equal []string
	// Keyed reports whether the read specifies logical partitions.
	Keyed bool
}

// Shape returns the kind of read of the plan.
func (p *Plan) Shape() Shape {
	w := &p.where
	var out Shape
	var parts []string
	for _, set := range []*relation.Set{&w.pk, &w.clustering, &w.others} {
		for _, r := range set.List {
			parts = append(parts, shapeOf(r))
			if r.Kind == relation.Equal {
				for _, c := range r.Columns {
					out.Equal = append(out.Equal, c.Name)
				}
			}
		}
	}
	if w.token != nil {
		parts = append(parts, "token(...)")
	}
	if len(parts) > 0 {
		out.Text = "WHERE " + strings.Join(parts, " AND ")
	}
	if w.lookup.index != nil {
		out.Index = w.lookup.index.Name
	}
	out.Keyed = !p.FansOut()
	return out
}

// shapeOf returns the text of a restriction without values.
func shapeOf(r *relation.Restriction) string {
	names := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		names[i] = cqltype.QuoteName(c.Name)
	}
	columns := strings.Join(names, ", ")
	if r.Multi {
		columns = "(" + columns + ")"
	}
	switch {
	case r.Kind == relation.Equal:
		return columns + " = ?"
	case r.Kind == relation.In:
		return columns + " IN ?"
	case r.Kind == relation.Contains:
		return columns + " CONTAINS ?"
	case r.Low == nil:
		return columns + " < ?"
	case r.High == nil:
		return columns + " > ?"
	}
	return columns + " > ? AND " + columns + " < ?"
}
