// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

const requiresFiltering = "Cannot execute this query as it might involve data filtering and thus may have unpredictable performance. " +
	"If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING"

// where is a WHERE clause: the access path and what is left to be filtered.
type where struct {
	table *schema.Table
	// pk, clustering and others are the restrictions by the kind of their columns; token is the one on the token, nil if
	// there is none.
	pk, clustering, others restrictions
	token                  *tokenRestriction

	// keyRange is true if partitions are found by scanning a range of tokens (through an index or not), not by their keys.
	keyRange bool
	// indexed is true if the rules for queries through an index hold; index and lookup say which one is read, and for what. It may be
	// nil all the same.
	indexed bool
	index   *schema.Index
	lookup  expr.Term
	// lookupEntry is the value of a lookup among the entries of a map; lookup is then the key.
	lookupEntry expr.Term

	// sliced are the clustering restrictions that become intervals of clustering keys, in order; the last may be a slice.
	sliced []*restriction
	// filtered are the restrictions that rows are checked against, in Cassandra's order.
	filtered []*restriction
	// filteredColumns counts restricted columns as Cassandra counts expressions.
	filteredColumns int
}

// tokenRestriction is a restriction on the token of the partition key; nil bounds are open.
type tokenRestriction struct {
	equal     bool
	low, high *tokenBound
	text      string
}

type tokenBound struct {
	value     expr.Term
	inclusive bool
}

func (t *tokenRestriction) merge(o *tokenRestriction, table *schema.Table) (*tokenRestriction, error) {
	names := pkNames(table)
	switch {
	case t.equal:
		return nil, dberr.Invalidf("%s cannot be restricted by more than one relation if it includes an Equal", names)
	case o.equal:
		return nil, dberr.Invalidf("Columns \"%s\" cannot be restricted by both an equality and an inequality relation", names)
	case t.low != nil && o.low != nil:
		return nil, dberr.Invalidf("More than one restriction was found for the start bound on %s", names)
	case t.high != nil && o.high != nil:
		return nil, dberr.Invalidf("More than one restriction was found for the end bound on %s", names)
	}
	out := &tokenRestriction{low: t.low, high: t.high, text: t.text + " AND " + o.text}
	if o.low != nil {
		out.low = o.low
	}
	if o.high != nil {
		out.high = o.high
	}
	return out, nil
}

// pkNames lists the columns of the partition key.
func pkNames(table *schema.Table) string {
	names := make([]string, len(table.PartitionKey))
	for i, c := range table.PartitionKey {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// bindWhere binds and checks a WHERE clause. onlyStatics says that nothing but static (and partition key) columns is selected.
func bindWhere(stmt *parser.Select, table *schema.Table, env *expr.Env, onlyStatics bool) (*where, error) {
	w := &where{table: table}
	b := &relationBinder{table, env}
	for i := range stmt.Where {
		if err := w.add(b, &stmt.Where[i], stmt.AllowFiltering); err != nil {
			return nil, err
		}
	}
	indexed := w.hasIndex(&w.clustering) || w.hasIndex(&w.pk) || w.hasIndex(&w.others)
	if err := w.settlePartitionKey(indexed, stmt.AllowFiltering); err != nil {
		return nil, err
	}
	if onlyStatics && !w.clustering.empty() {
		return nil, dberr.Invalidf("Cannot restrict clustering columns when selecting only static columns")
	}
	if err := w.settleClustering(indexed, stmt.AllowFiltering); err != nil {
		return nil, err
	}
	if !w.others.empty() {
		if indexed {
			w.indexed = true
		} else if !stmt.AllowFiltering {
			return nil, dberr.Invalidf(requiresFiltering)
		}
		w.filter(&w.others, w.others.list)
	}
	if w.indexed {
		if w.pk.has(in) {
			return nil, dberr.Invalidf("Select on indexed columns and with IN clause for the PRIMARY KEY are not supported")
		}
		w.chooseIndex()
	}
	return w, nil
}

func (w *where) add(b *relationBinder, r *parser.Relation, allowFiltering bool) error {
	if r.Op == parser.IsNotNull {
		return dberr.Invalidf("Unsupported restriction: %s", relationText(r))
	}
	if r.Kind == parser.TokenRelation {
		t, err := b.token(r)
		if err != nil {
			return err
		}
		if w.token != nil {
			t, err = w.token.merge(t, w.table)
		}
		w.token = t
		return err
	}
	bound, err := b.restriction(r)
	if err != nil {
		return err
	}
	switch bound.first().Kind {
	case schema.PartitionKey:
		return w.pk.add(bound)
	case schema.Clustering:
		return w.addClustering(bound, allowFiltering)
	}
	return w.others.add(bound)
}

func (w *where) addClustering(r *restriction, allowFiltering bool) error {
	before := w.clustering.list
	if err := w.clustering.add(r); err != nil {
		return err
	}
	if len(before) == 0 || allowFiltering {
		return nil
	}
	last, first := before[len(before)-1], r.first()
	if last.kind == slice && first.Position > last.first().Position {
		return dberr.Invalidf("Clustering column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
			first.Name, last.first().Name)
	}
	if first.Position < last.first().Position && r.kind == slice {
		next := first
		for _, o := range before {
			if o.first().Position > first.Position {
				next = o.first()
				break
			}
		}
		return dberr.Invalidf("PRIMARY KEY column \"%s\" cannot be restricted (preceding column \"%s\" is restricted by a non-EQ relation)",
			next.Name, first.Name)
	}
	return nil
}

// pkNeedsFiltering reports whether restrictions on the partition key do not give its value.
func (w *where) pkNeedsFiltering() bool {
	return !w.pk.empty() && (w.pk.size() < len(w.table.PartitionKey) || w.pk.has(slice) || w.pk.has(contains))
}

// pkEmpty reports whether neither the partition key nor its token is restricted.
func (w *where) pkEmpty() bool { return w.pk.empty() && w.token == nil }

// onToken reports whether the token restriction bounds a scan. If the key is given too, it only filters the keys.
func (w *where) onToken() bool { return w.token != nil && (w.pk.empty() || w.pkNeedsFiltering()) }

func (w *where) settlePartitionKey(indexed, allowFiltering bool) error {
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
		w.filter(&w.pk, w.pk.list)
	}
	return nil
}

func (w *where) settleClustering(indexed, allowFiltering bool) error {
	if w.clustering.has(contains) && !indexed && !allowFiltering {
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
	if w.keyRange && w.hasIndex(&w.clustering) {
		w.indexed = true
	}
	if w.indexed || len(filtered) > 0 {
		var list []*restriction
		for _, r := range w.clustering.list {
			if slices.Contains(filtered, r) || w.supporting(r) != nil {
				list = append(list, r)
			}
		}
		w.filter(&w.clustering, list)
	}
	return nil
}

// splitClustering finds the restrictions that become intervals and returns the others.
func (w *where) splitClustering() (filtered []*restriction) {
	position, open := 0, true
	for _, r := range w.clustering.list {
		if r.kind == contains || r.first().Position != position {
			filtered = append(filtered, r)
			open = false
			continue
		}
		if open {
			w.sliced = append(w.sliced, r)
		}
		if r.kind != slice {
			position = r.last().Position + 1
		}
	}
	return filtered
}

func (w *where) unrestrictedBefore() error {
	i := 0
	for _, r := range w.clustering.list {
		for _, c := range r.columns {
			if w.table.Clustering[i] != c {
				return dberr.Invalidf("PRIMARY KEY column \"%s\" cannot be restricted as preceding column \"%s\" is not restricted",
					c.Name, w.table.Clustering[i].Name)
			}
			i++
		}
	}
	return nil
}

func (w *where) filter(set *restrictions, list []*restriction) {
	w.filtered = append(w.filtered, list...)
	w.filteredColumns += set.size()
}

// checkFiltering refuses what would filter without having been allowed to.
func (w *where) checkFiltering(allowed bool) error {
	if allowed || !w.keyRange && !w.indexed {
		return nil
	}
	if w.filteredColumns > 1 || w.filteredColumns == 0 && !w.clustering.empty() || w.filteredColumns != 0 && w.others.multipleContains() {
		return dberr.Invalidf(requiresFiltering)
	}
	return nil
}

// fixed reports whether a column has one value in all rows that are read.
func (w *where) fixed(c *schema.Column) bool {
	set := &w.clustering
	if c.Kind == schema.PartitionKey {
		set = &w.pk
	}
	r := set.of(c)
	return r != nil && r.kind == equal
}

// wholePartitions reports whether partitions are read without choosing among their rows, so that one without rows still shows
// its static columns.
func (w *where) wholePartitions() bool {
	if !w.clustering.empty() {
		return false
	}
	for _, r := range w.others.list {
		if r.first().Kind == schema.Regular {
			return false
		}
	}
	return true
}
