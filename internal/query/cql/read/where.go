// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

const requiresFiltering = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. " +
	"If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"

// where is a bound WHERE clause. It consists of the access path and the remaining filters.
type where struct {
	table *schema.Table
	// pk, clustering, and others hold the restrictions by kind of column. token is the token restriction, or nil.
	pk, clustering, others relation.Set
	token                  *tokenRestriction
	feed                   feedClause
	// ann reports whether the statement has an ORDER BY .. ANN OF clause.
	ann bool

	// keyRange reports whether the read scans a token range or an index instead of reading given partition keys.
	keyRange bool
	// indexed reports whether the rules for index queries apply. If the plan uses an index, lookup contains the index.
	indexed bool
	lookup  indexLookup
	// checked holds the sets of restrictions that Cassandra treats as filters.
	checked []*relation.Set

	// sliced holds the clustering restrictions that are converted into clustering intervals, in key order. The last
	// restriction may be a slice.
	sliced []*relation.Restriction
	// filtered holds the restrictions that filter rows, in Cassandra's order.
	filtered []*relation.Restriction
	// filterSlots maps the columns of filters to slots.
	filterSlots map[*schema.Column]int
	// filteredColumns is the number of filter expressions according to Cassandra's rules.
	filteredColumns int
}

// bindWhere binds and checks a WHERE clause. onlyStatics reports whether the statement selects only static and
// partition key columns. near reports whether the statement has an ORDER BY .. ANN OF clause.
func bindWhere(stmt *parser.Select, table *schema.Table, env *expr.Env, onlyStatics, near bool) (*where, error) {
	w := &where{table: table, ann: near, lookup: indexLookup{table: table}}
	allowed := stmt.AllowFiltering || table.Virtual && env.Release.FiltersVirtual
	for i := range stmt.Where {
		if err := w.add(&stmt.Where[i], env, allowed); err != nil {
			return nil, err
		}
	}
	if err := w.checkFeed(); err != nil {
		return nil, err
	}
	if err := w.rejectANNColumns(); err != nil {
		return nil, err
	}
	indexed := near || w.lookup.hasIndex(&w.clustering) || w.lookup.hasIndex(&w.pk) || w.lookup.hasIndex(&w.others)
	if err := w.restrictPartitionKey(indexed, allowed); err != nil {
		return nil, err
	}
	if onlyStatics && !w.clustering.Empty() {
		return nil, dberr.Invalidf("Cannot restrict clustering columns when selecting only static columns")
	}
	if err := w.restrictClustering(indexed, allowed); err != nil {
		return nil, err
	}
	if !w.others.Empty() {
		if indexed {
			w.indexed = true
		} else if !allowed {
			return nil, dberr.Invalidf(requiresFiltering)
		}
		w.filter(&w.others, w.others.List)
	}
	if w.indexed = w.indexed || near; w.indexed {
		if w.pk.Has(relation.In) {
			return nil, dberr.Invalidf("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
		}
		w.lookup.choose(w.filtered, w.keyRange)
	}
	return w, nil
}

func (w *where) add(r *parser.Relation, env *expr.Env, allowFiltering bool) error {
	if r.Op == parser.IsNotNull {
		return dberr.Invalidf("Unsupported restriction: %s", relation.Text(r))
	}
	if r.Kind == parser.ChangeFeedRelation {
		return w.feed.bind(r, env)
	}
	if r.Kind == parser.TokenRelation {
		t, err := bindToken(r, env)
		if err != nil {
			return err
		}
		if w.token != nil {
			t, err = w.token.merge(t, w.table)
		}
		w.token = t
		return err
	}
	bound, err := relation.Bind(r, env)
	if err != nil {
		return err
	}
	switch bound.First().Kind {
	case schema.PartitionKey:
		return w.pk.Add(bound)
	case schema.Clustering:
		if !allowFiltering && w.lookup.saiIndex(bound) == nil {
			return w.clustering.AddClustering(bound)
		}
		return w.clustering.Add(bound)
	}
	return w.others.Add(bound)
}

// pkNeedsFiltering reports whether the partition key is restricted but not completely specified.
func (w *where) pkNeedsFiltering() bool {
	return !w.pk.Empty() && (w.pk.Size() < len(w.table.PartitionKey) || w.pk.Has(relation.Slice) ||
		w.pk.Has(relation.Contains))
}

// pkEmpty reports whether neither the partition key nor its token is restricted.
func (w *where) pkEmpty() bool { return w.pk.Empty() && w.token == nil }

// onToken reports whether the token restriction limits a scan. If the statement also specifies the partition keys, the
// token restriction only filters these keys.
func (w *where) onToken() bool { return w.token != nil && (w.pk.Empty() || w.pkNeedsFiltering()) }

func (w *where) restrictPartitionKey(indexed, allowFiltering bool) error {
	if w.onToken() {
		w.keyRange = true
	}
	if w.pkEmpty() {
		w.keyRange, w.indexed = true, indexed
	}
	if w.pkNeedsFiltering() {
		if !allowFiltering && !indexed {
			return dberr.Invalidf(requiresFiltering)
		}
		w.keyRange, w.indexed = true, indexed
	}
	if w.indexed || w.pkNeedsFiltering() {
		w.filter(&w.pk, w.pk.List)
	}
	return nil
}

func (w *where) restrictClustering(indexed, allowFiltering bool) error {
	if w.clustering.Has(relation.Contains) && !indexed && !allowFiltering {
		return dberr.Invalidf("Clustering columns can only be restricted with CONTAINS with a secondary index or filtering")
	}
	filtered := w.splitClustering()
	if len(filtered) > 0 {
		if indexed {
			w.indexed = true
		} else if !allowFiltering {
			if err := w.unrestrictedBefore(); err != nil {
				return err
			}
		}
	}
	if w.keyRange && w.lookup.hasIndex(&w.clustering) {
		w.indexed = true
	}
	if w.indexed || len(filtered) > 0 {
		var list []*relation.Restriction
		for _, r := range w.clustering.List {
			if slices.Contains(filtered, r) || w.lookup.supporting(r) != nil {
				list = append(list, r)
			}
		}
		w.filter(&w.clustering, list)
	}
	return nil
}

// splitClustering selects the restrictions that are converted into intervals. It returns the remaining restrictions.
func (w *where) splitClustering() (filtered []*relation.Restriction) {
	position, open := 0, true
	for _, r := range w.clustering.List {
		if r.Kind == relation.Contains || r.First().Position != position {
			filtered = append(filtered, r)
			open = false
			continue
		}
		if open {
			w.sliced = append(w.sliced, r)
		}
		if r.Kind != relation.Slice {
			position = r.Last().Position + 1
		}
	}
	return filtered
}

func (w *where) unrestrictedBefore() error {
	i := 0
	for _, r := range w.clustering.List {
		for _, c := range r.Columns {
			if w.table.Clustering[i] != c {
				return dberr.Invalidf("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted",
					c.Name, w.table.Clustering[i].Name)
			}
			i++
		}
	}
	return nil
}

func (w *where) filter(set *relation.Set, list []*relation.Restriction) {
	w.filtered = append(w.filtered, list...)
	w.checked = append(w.checked, set)
	w.filteredColumns += set.Size()
}

// checkFiltering returns an error if the query requires ALLOW FILTERING but does not contain the clause.
func (w *where) checkFiltering(allowed bool) error {
	if allowed || !w.keyRange && !w.indexed || w.allSAI() {
		return nil
	}
	if w.filteredColumns > 1 || w.filteredColumns == 0 && !w.clustering.Empty() || w.filteredColumns != 0 &&
		(w.multipleContains() || w.indexed && !w.ann && !slices.ContainsFunc(w.filtered, w.lookup.hasIndexFor)) {
		return dberr.Invalidf(requiresFiltering)
	}
	return nil
}

// fixed reports whether a column has the same value in all rows that are read.
func (w *where) fixed(c *schema.Column) bool {
	set := &w.clustering
	if c.Kind == schema.PartitionKey {
		set = &w.pk
	}
	r := set.Of(c)
	return r != nil && r.Kind == relation.Equal
}

// wholePartitions reports whether the read does not restrict the rows of partitions. For a partition without rows, such
// a read returns the static columns.
func (w *where) wholePartitions() bool {
	if !w.clustering.Empty() || w.ann {
		return false
	}
	for _, r := range w.others.List {
		if r.First().Kind == schema.Regular {
			return false
		}
	}
	return true
}

// multipleContains reports whether the WHERE clause contains several conditions on the contents of collections.
func (w *where) multipleContains() bool {
	n := 0
	for _, r := range w.others.List {
		n += len(r.Elements) + len(r.Keys) + len(r.Entries)
	}
	return n > 1
}
