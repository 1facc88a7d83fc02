// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// Explain prints the plan. The output contains a separate line for each part of the plan:
//
//	table ks.t
//	partitions all | token(k) > 5 | k = 1 | k IN (1, 2), in the order of their values
//	rows a = 1 AND b > 2                 the clustering restrictions that bound what is read
//	index t_v_idx                        where rows are found; they are checked by the filter again
//	filter v = 10 AND w > 2              what every row read is checked against
//	static rows                          partitions without rows show their static columns
//	distinct | aggregate | group by 1 column of the clustering key
//	reversed
//	sort by a, after reading
//	limit 10, 2 per partition
//	columns k int, v int
func (p *Plan) Explain() string {
	var b strings.Builder
	line := func(parts ...string) {
		b.WriteString(strings.Join(parts, " "))
		b.WriteByte('\n')
	}
	w := &p.where
	line("table", p.table.String())
	line("partitions", w.partitionsText())
	if len(w.sliced) > 0 {
		line("rows", restrictionsText(w.sliced))
	}
	if w.lookup.index != nil {
		line("index", w.lookup.names())
	}
	if len(w.filtered) > 0 {
		line("filter", restrictionsText(w.filtered))
	}
	if p.staticRows {
		line("static rows")
	}
	switch {
	case p.groups.grouped && p.groups.prefix == 0 && p.groups.function == nil:
		line("group by partition")
	case p.groups.grouped:
		line("group by", p.groupList())
	case p.groups.aggregated:
		line("aggregate")
	}
	if p.distinct {
		line("distinct")
	}
	if p.ann != nil {
		line("order by", p.ann.String())
	}
	if p.order.reversed {
		line("reversed")
	}
	if len(p.order.sort) > 0 {
		line("sort by", p.sortList()+", after reading")
	}
	var limits []string
	if p.limits.rowsText != "" {
		limits = append(limits, p.limits.rowsText)
	}
	if p.limits.perPartitionText != "" {
		limits = append(limits, p.limits.perPartitionText+" per partition")
	}
	if len(limits) > 0 {
		line("limit", strings.Join(limits, ", "))
	}
	columns := make([]string, len(p.columns))
	for i, c := range p.columns {
		columns[i] = c.Name + " " + c.Type.String()
	}
	line("columns", strings.Join(columns, ", "))
	return b.String()
}

// Summary describes the rows that an execution reads and their processing in one line.
func (p *Plan) Summary() string {
	w := &p.where
	parts := []string{p.accessText()}
	if len(w.filtered) > 0 {
		parts = append(parts, "filtered by "+restrictionsText(w.filtered))
	}
	switch {
	case p.groups.grouped && p.groups.prefix == 0 && p.groups.function == nil:
		parts = append(parts, "grouped by partition")
	case p.groups.grouped:
		parts = append(parts, "grouped by "+p.groupList())
	case p.groups.aggregated:
		parts = append(parts, "aggregated into one row")
	}
	if p.distinct {
		parts = append(parts, "one row for each partition")
	}
	if p.ann != nil {
		parts = append(parts, "ordered by "+p.ann.String())
	}
	if p.order.reversed {
		parts = append(parts, "in reverse order")
	}
	if len(p.order.sort) > 0 {
		parts = append(parts, "sorted by "+p.sortList()+" after reading")
	}
	if p.limits.rowsText != "" {
		parts = append(parts, "limit "+p.limits.rowsText)
	}
	if p.limits.perPartitionText != "" {
		parts = append(parts, "limit "+p.limits.perPartitionText+" per partition")
	}
	return strings.Join(parts, "; ")
}

// accessText describes the access path.
func (p *Plan) accessText() string {
	w := &p.where
	table := p.table.String()
	rows := restrictionsText(w.sliced)
	join := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " AND ")
	}
	switch {
	case w.lookup.index != nil && !w.keyRange:
		return "index " + w.lookup.names() + " of " + table + " in one partition: " + w.partitionsText()
	case w.lookup.index != nil:
		return "index " + w.lookup.names() + " of " + table + " in all physical partitions"
	case p.oneRow && !w.keyRange:
		return "one row of " + table + ": " + join(w.partitionsText(), rows)
	case w.keyRange && w.token != nil:
		return "a token range of " + table + ": " + join(w.token.text, rows)
	case w.keyRange && rows != "":
		return "slices of all partitions of " + table + ": " + rows
	case w.keyRange:
		return "all of " + table
	case w.pk.Has(relation.In):
		return "several partitions of " + table + ": " + join(w.partitionsText(), rows)
	case rows == "":
		return "one partition of " + table + ": " + w.partitionsText()
	}
	return "a slice of one partition of " + table + ": " + join(w.partitionsText(), rows)
}

// Index returns the names of the indexes that are read, or an empty string if no index is read.
func (p *Plan) Index() string {
	if p.where.lookup.index == nil {
		return ""
	}
	return p.where.lookup.names()
}

// MaxRows returns the maximum number of rows in a page. It returns 0 if the number is not limited, or if the returned
// rows differ from the rows that are read.
func (p *Plan) MaxRows(b *expr.Bindings, pageSize int) (int64, error) {
	if p.groups.aggregated || p.distinct || p.ann != nil || len(p.order.sort) > 0 {
		return 0, nil
	}
	n, err := evalLimit(p.limits.rows, b)
	if pageSize > 0 {
		n = min(n, int64(pageSize))
	}
	if n == unlimited {
		n = 0
	}
	return n, err
}

// sortList returns the columns that are used to sort the rows after the read.
func (p *Plan) sortList() string {
	names := make([]string, len(p.order.sort))
	for i, at := range p.order.sort {
		names[i] = p.table.Clustering[at].Name
	}
	return strings.Join(names, ", ")
}

// groupList returns the columns that define the groups within a partition.
func (p *Plan) groupList() string {
	var names []string
	for _, c := range p.table.Clustering[:p.groups.prefix] {
		names = append(names, c.Name)
	}
	if p.groups.function != nil {
		names = append(names, p.groups.text)
	}
	return strings.Join(names, ", ")
}

func (w *where) partitionsText() string {
	if !w.keyRange {
		text := restrictionsText(w.pk.List)
		if slices.ContainsFunc(w.pk.List, func(r *relation.Restriction) bool { return r.Kind == relation.In }) {
			text += ", in the order of their values"
		}
		if w.token != nil {
			text += ", if " + w.token.text
		}
		return text
	}
	if w.token != nil {
		return w.token.text
	}
	return "all"
}

func restrictionsText(list []*relation.Restriction) string {
	texts := make([]string, len(list))
	for i, r := range list {
		texts[i] = r.Text
	}
	return strings.Join(texts, " AND ")
}
