// SPDX-License-Identifier: Apache-2.0

package write

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// where is the WHERE clause of a modification, or the key values of an INSERT.
type where struct {
	// partition, clustering, and others hold the restrictions by kind of column. The method check rejects restrictions
	// in others.
	partition, clustering, others relation.Set
	// token reports whether the clause contains token(..). The method check rejects such a clause.
	token bool
	// absent holds the null clustering columns. An INSERT or UPDATE of a compact table may specify only a prefix of the
	// clustering key.
	absent []*schema.Column
	// simple reports whether all restrictions are equalities on single columns. A simple clause selects one partition
	// key and one clustering prefix.
	simple bool
}

// bindRelations binds the relations of UPDATE and DELETE.
func (w *where) bindRelations(relations []parser.Relation, env *expr.Env, update bool) error {
	for i := range relations {
		r := &relations[i]
		if r.Op == parser.IsNotNull {
			return dberr.Invalidf("Unsupported restriction: %s", relation.Text(r))
		}
		if r.Kind == parser.TokenRelation {
			w.token = true
			continue
		}
		if r.Kind == parser.ChangeFeedRelation {
			return dberr.Invalidf("%s() is supported only in SELECT",
				r.Columns[0].Name)
		}
		if update && env.Release.RejectsContains && (r.Op == parser.Contains || r.Op == parser.ContainsKey) {
			return dberr.Invalidf("Cannot use UPDATE with %s", r.Op)
		}
		bound, err := relation.Bind(r, env)
		if err != nil {
			return err
		}
		if err := w.add(bound); err != nil {
			return err
		}
	}
	return nil
}

func (w *where) add(r *relation.Restriction) error {
	switch r.First().Kind {
	case schema.PartitionKey:
		if r.Kind == relation.Contains {
			return dberr.Invalidf("Cannot restrict partition key columns by a CONTAINS relation without a secondary index")
		}
		return w.partition.Add(r)
	case schema.Clustering:
		if r.Kind == relation.Contains {
			return dberr.Invalidf("Cannot restrict clustering columns by a CONTAINS relation without a secondary index")
		}
		return w.clustering.AddClustering(r)
	}
	return w.others.Add(r)
}

// check rejects unsupported restrictions in Cassandra's order. static reports whether the statement affects only static
// columns.
func (w *where) check(p *Plan, static bool) error {
	name := kindNames[p.kind]
	if w.token {
		return dberr.Invalidf("The token function cannot be used in WHERE clauses for %s statements", name)
	}
	if missing := unrestricted(p.table.PartitionKey, &w.partition); len(missing) > 0 {
		return dberr.Invalidf("Some partition key parts are missing: %s", strings.Join(missing, ", "))
	}
	if w.partition.Has(relation.Slice) {
		return dberr.Invalidf("Only EQ and IN relation are supported on the partition key (unless you use the "+
			"token() function) for %s statements", name)
	}
	if static && !w.clustering.Empty() && p.kind != insert {
		return dberr.Invalidf("Invalid restrictions on clustering columns since the %s statement modifies only static columns", name)
	}
	if err := w.checkClustering(p, static); err != nil {
		return err
	}
	if !w.others.Empty() {
		var names []string
		for _, r := range w.others.List {
			names = append(names, r.First().Name)
		}
		return dberr.Invalidf("Non PRIMARY KEY columns found in where clause: %s ", strings.Join(names, ", "))
	}
	w.simple = true
	for _, r := range slices.Concat(w.partition.List, w.clustering.List) {
		w.simple = w.simple && r.Kind == relation.Equal && !r.Multi
	}
	return nil
}

func (w *where) checkClustering(p *Plan, static bool) error {
	missing := unrestricted(p.table.Clustering, &w.clustering)
	if p.kind != remove {
		if w.clustering.Has(relation.Slice) {
			return dberr.Invalidf("Slice restrictions are not supported on the clustering columns in %s statements",
				kindNames[p.kind])
		}
		// In a compact table, the last clustering columns may be null.
		if n := w.clustering.Size(); p.table.CompactStorage && n > 0 && len(missing) > 0 {
			w.absent = p.table.Clustering[n:]
			return w.checkPrefix(p.table)
		}
		if !static && len(missing) > 0 {
			return dberr.Invalidf("Some clustering keys are missing: %s", strings.Join(missing, ", "))
		}
		return nil
	}
	return w.checkPrefix(p.table)
}

// checkPrefix rejects a restriction on a clustering column if a preceding clustering column is not restricted.
func (w *where) checkPrefix(t *schema.Table) error {
	next := 0
	for _, r := range w.clustering.List {
		if c := r.First(); c.Position != next {
			return dberr.Invalidf("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted", c.Name,
				t.Clustering[next].Name)
		}
		next += len(r.Columns)
	}
	return nil
}

// unrestricted returns the columns without a restriction.
func unrestricted(columns []*schema.Column, set *relation.Set) []string {
	var missing []string
	for _, c := range columns {
		if set.Of(c) == nil {
			missing = append(missing, c.Name)
		}
	}
	return missing
}

// full reports whether all clustering columns have equality or IN restrictions. If so, the statement selects rows
// instead of ranges.
func (w *where) full(t *schema.Table) bool {
	return !w.clustering.Has(relation.Slice) && w.clustering.Size() == len(t.Clustering)
}
