// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/query/relation"
)

// Explain prints the plan, one line per part that is there:
//
//	table ks.t
//	partitions all | token(k) > 5 | k = 1 | k IN (1, 2), in the order of their values
//	rows a = 1 AND b > 2                 the clustering restrictions that bound what is read
//	index t_v_idx                        where rows are found; they are checked by the filter again
//	filter v = 10 AND w > 2              what every row read is checked against
//	static rows                          partitions without rows show their static columns
//	distinct | fold | group by 1 column of the clustering key
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
	if w.index != nil {
		line("index", w.index.Name)
	}
	if len(w.filtered) > 0 {
		line("filter", restrictionsText(w.filtered))
	}
	if p.staticRows {
		line("static rows")
	}
	switch {
	case p.grouped && p.groupPrefix == 0:
		line("group by partition")
	case p.grouped:
		line("group by", columnList(p, p.groupPrefix))
	case p.aggregated:
		line("fold")
	}
	if p.distinct {
		line("distinct")
	}
	if p.reversed {
		line("reversed")
	}
	if len(p.sort) > 0 {
		var names []string
		for _, i := range p.sort {
			names = append(names, p.table.Clustering[i].Name)
		}
		line("sort by", strings.Join(names, ", ")+", after reading")
	}
	var limits []string
	if p.limitText != "" {
		limits = append(limits, p.limitText)
	}
	if p.partitionLimitText != "" {
		limits = append(limits, p.partitionLimitText+" per partition")
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

func columnList(p *Plan, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = p.table.Clustering[i].Name
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
