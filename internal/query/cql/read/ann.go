// SPDX-License-Identifier: Apache-2.0

package read

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/vector"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// maxANNLimit is the maximum LIMIT of an ANN query.
const maxANNLimit = 1000

const annNeedsLimit = "Top-K queries must have a limit specified and the limit must be less than the query page size"

// annOrder holds the clause ORDER BY column ANN OF target.
type annOrder struct {
	column *schema.Column
	index  *schema.Index
	target expr.Term
	// text is the target as written in the statement. slot is the slot of the column.
	text string
	slot int
	// walks reports whether rows can be read in the order of the vector index. This requires a stored column that is
	// neither a key column nor static.
	walks bool
}

// bindANN binds ORDER BY .. ANN OF. It returns nil if the statement has no such clause.
func (p *Plan) bindANN(stmt *parser.Select, env *expr.Env) (*annOrder, error) {
	i := slices.IndexFunc(stmt.OrderBy, func(o parser.Ordering) bool { return o.ANN != nil })
	if i < 0 {
		return nil, nil
	}
	o := &stmt.OrderBy[i]
	c, err := expr.FindColumn(p.table, o.Column)
	if err != nil {
		return nil, err
	}
	n := &annOrder{column: c, text: expr.Text(o.ANN)}
	if n.target, err = expr.Bind(o.ANN, expr.Receiver{Name: c.Name, Type: c.Type}, env); err != nil {
		return nil, err
	}
	switch {
	case o.Descending:
		return nil, dberr.Invalidf("Descending ANN ordering is not supported")
	case len(stmt.OrderBy) > 1:
		return nil, dberr.Invalidf("ANN ordering does not support any other ordering")
	case !c.IsFloatVector():
		return nil, dberr.Invalidf("ANN ordering is only supported on float vector indexes")
	}
	if n.index = p.table.ANNIndex(c); n.index != nil {
		return n, nil
	}
	for _, ix := range p.table.Indexes {
		if ix.Column == c.Name {
			return nil, dberr.Invalidf(requiresFiltering) // the index supports only equality
		}
	}
	return nil, dberr.Invalidf("ANN ordering by vector requires the column to be indexed")
}

// checkANN rejects clauses that an ANN query does not support.
func (p *Plan) checkANN(stmt *parser.Select) error {
	switch {
	case p.groups.aggregated:
		return dberr.Invalidf("Top-K queries can not be run with aggregation")
	case stmt.PerPartitionLimit != nil:
		return dberr.Invalidf("Top-K queries do not support per-partition limits")
	}
	w := &p.where
	restricted := w.others.List
	if w.keyRange {
		restricted = slices.Concat(w.pk.List, w.clustering.List, restricted)
	} else {
		for _, r := range w.clustering.List {
			if !slices.Contains(w.sliced, r) {
				restricted = append(slices.Clip(restricted), r)
			}
		}
	}
	for _, r := range restricted {
		if w.lookup.supporting(r) == nil {
			return dberr.Invalidf("ANN ordering by vector requires all restricted column(s) to be indexed")
		}
	}
	return nil
}

// rejectANNColumns rejects restrictions on columns with a vector index.
func (w *where) rejectANNColumns() error {
	for _, r := range w.others.List {
		for _, c := range r.Columns {
			if w.table.ANNIndex(c) != nil {
				return dberr.Invalidf("Vector indexes only support ANN queries")
			}
		}
	}
	return nil
}

// annSearch collects the rows of an ANN query: the nearest neighbors of the target.
type annSearch struct {
	order       *annOrder
	out         *resultWriter
	target, buf []float32
	// wire is the target in wire format.
	wire []byte
	// walk orders the entries of an index walk. For other reads, walk is nil. previous is the bound of the previous row
	// in the current physical partition.
	walk       *vector.Search
	previous   float32
	similarity vector.Similarity
	limit      int
	// rows holds the nearest rows found so far. When rows contains limit rows, it is a heap whose first element is the
	// most distant row. bytes is the size of the cells in rows. seen counts the examined rows and is used to break
	// ties.
	rows  []annRow
	bytes int
	seen  int
}

// annRow is a row of the result.
type annRow struct {
	similarity float32
	seen       int
	cells      []byte
}

// compare orders rows by decreasing similarity.
func (a *annRow) compare(b *annRow) int {
	return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.seen, b.seen))
}

func (n *annSearch) reset() { *n = annSearch{target: n.target[:0], buf: n.buf[:0]} }

// begin evaluates the target. The search uses the consistency level of the request. Cassandra lowers the level to ONE
// with a warning.
func (n *annSearch) begin(order *annOrder, out *resultWriter, limit int64) error {
	switch {
	case limit == unlimited:
		return dberr.Invalidf(annNeedsLimit)
	case limit > maxANNLimit:
		return dberr.Invalidf("Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than %d. "+
			"LIMIT was %d", maxANNLimit, limit)
	}
	v, err := evalFilter(order.target, out.bind, "value", order.column)
	if err != nil {
		return err
	}
	if err := order.column.Type.Validate(v); err != nil {
		return err
	}
	if size := out.options.PageSize; size > 0 && int64(size) < limit {
		out.page.Warnings = append(out.page.Warnings, fmt.Sprintf("Top-K queries do not support paging and the page "+
			"size is set to %d, which is less than LIMIT %d. The page size has been set to %d to match the LIMIT.", size,
			limit, limit))
	}
	target, _ := order.column.Type.Floats(n.target[:0], v)
	*n = annSearch{order: order, out: out, target: target, buf: n.buf[:0], wire: v,
		similarity: order.index.Similarity(), limit: int(limit)}
	if err := n.similarity.Check(target); err != nil {
		return &dberr.ReadFailure{Level: out.options.Level, BlockFor: 1, Failures: 1, Message: err.Error()}
	}
	return nil
}

// offer adds the current row if the row is among the nearest rows found so far.
func (n *annSearch) offer(values [][]byte) error {
	v, ok := n.order.column.Type.Floats(n.buf[:0], values[n.order.slot])
	if n.buf = v; !ok || n.similarity.Check(v) != nil {
		return nil // the row has no vector, or an invalid vector from before the creation of the index
	}
	r := annRow{similarity: n.similarity.Of(n.target, v), seen: n.seen}
	n.seen++
	full := len(n.rows) == n.limit
	if full && r.compare(&n.rows[0]) >= 0 {
		return nil
	}
	var buf []byte
	if full {
		buf = n.rows[0].cells[:0]
		n.bytes -= len(n.rows[0].cells)
		if err := n.out.bind.Meter.Keep(-len(n.rows[0].cells)); err != nil {
			return err
		}
	}
	var err error
	if r.cells, err = n.out.detached(buf); err != nil {
		return err
	}
	if n.bytes += len(r.cells); n.bytes > n.out.options.SortBytesMax {
		return dberr.Invalidf("The nearest rows exceed %d bytes: select fewer columns or set a lower LIMIT",
			n.out.options.SortBytesMax)
	}
	n.add(r, full)
	return nil
}

// add adds a row. If full is true, the new row replaces the most distant row.
func (n *annSearch) add(r annRow, full bool) {
	if !full {
		if n.rows = append(n.rows, r); len(n.rows) == n.limit {
			for i := len(n.rows)/2 - 1; i >= 0; i-- {
				n.sink(i)
			}
		}
		return
	}
	n.rows[0] = r
	n.sink(0)
}

// sink restores the heap property from index i. In the heap, each row is at least as distant as its two children.
func (n *annSearch) sink(i int) {
	for {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(n.rows); c++ {
			if n.rows[c].compare(&n.rows[worst]) > 0 {
				worst = c
			}
		}
		if worst == i {
			return
		}
		n.rows[i], n.rows[worst] = n.rows[worst], n.rows[i]
		i = worst
	}
}

// emit writes the nearest rows as a page.
func (n *annSearch) emit() error {
	o := n.out
	slices.SortFunc(n.rows, func(a, b annRow) int { return a.compare(&b) })
	for i := range n.rows {
		cells := n.rows[i].cells
		o.rowBegin = len(o.page.Cells)
		if o.rowBegin+len(cells) > o.room || i == 0 {
			if err := o.makeRoom(len(cells)); err != nil {
				return err
			}
		}
		o.page.Cells = append(o.page.Cells, cells...)
	}
	o.page.Rows = len(n.rows)
	return nil
}

// String returns the clause in the form that Explain prints.
func (n *annOrder) String() string {
	return n.column.Name + " nearest to " + n.text + " by " + n.index.Similarity().String()
}
