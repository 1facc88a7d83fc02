// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// filteredMin is the minimum ratio of a read's cost to the cost of its result rows for a finding. unitsMin is the
// minimum difference between these costs in request units.
const (
	filteredMin = 2
	unitsMin    = 1
)

// filterings reports reads of logical partitions that examine many more rows than they return. Another clustering order
// would store the requested rows next to each other.
func (s *study) filterings() (out []Finding) {
	for _, sh := range s.dearest(true) {
		each, rows := sh.Units/float64(sh.Count), float64(sh.Rows)/float64(sh.Count)
		alone := readPart(rows, rows*s.rowBytes())
		first := s.firstBy(sh)
		if len(first) == 0 || each < filteredMin*alone || each < alone+unitsMin || len(out) == shapesShown {
			continue
		}
		out = append(out, *s.filtering(sh, first, each, rows, alone))
	}
	return out
}

// firstBy returns the columns that would select the rows of a kind of read if they came first in the clustering order.
// These are the columns outside the partition key that the read compares with one value.
func (s *study) firstBy(sh *Shape) (out []*schema.Column) {
	for _, name := range sh.Equal {
		c := s.Table.ByName[name]
		if c != nil && (c.Kind == schema.Clustering || c.Kind == schema.Regular) && !c.Type.MultiCell() &&
			c.Type.Kind != cqltype.Counter {
			out = append(out, c)
		}
	}
	return out
}

// filtering returns the finding about one kind of read.
func (s *study) filtering(sh *Shape, first []*schema.Column, each, rows, alone float64) *Finding {
	f := &Finding{Kind: Filtering, Level: Note}
	if each >= 10*alone {
		f.Level = Warning
	}
	f.Headline = fmt.Sprintf("a query examines more rows than it returns: %s, %s RU per query for %s", sh.words(),
		number(each), plural(rows, "row"))
	f.Evidence = []Fact{
		{"number of queries on the nodes that responded", float64(sh.Count), Count},
		{"price of a query", each, RU},
		{"rows per query", rows, Count},
		{"price of the same number of adjacent rows", alone, RU},
	}
	f.Basis = fmt.Sprintf("calculated for %s rows of mean size, %s", roughly(rows), bytesText(s.rowBytes()))
	names := make([]string, len(first))
	for i, c := range first {
		names[i] = cqltype.QuoteName(c.Name)
	}
	d := s.tableOrderedBy(first)
	f.Proposal = Proposal{DDL: d.String(), Text: fmt.Sprintf("Order the rows of a logical partition by %s first: the "+
		"requested rows are then adjacent. If rows are also read in the current order, write each row to both "+
		"tables.%s",
		joined(names), s.whenItChanges(first))}
	f.Effect = []Change{
		{What: "price of a query", Before: each, After: alone, Unit: RU},
		{What: "price of a write (to both tables in the proposal)", Before: writeRow(s.rowBytes(), false),
			After: 2 * writeRow(s.rowBytes(), false), Unit: RU},
	}
	return f
}

// whenItChanges describes how to update a column that becomes part of the key.
func (s *study) whenItChanges(first []*schema.Column) string {
	i := slices.IndexFunc(first, func(c *schema.Column) bool { return c.Kind == schema.Regular })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf(" An update of %s must delete the row and insert a new row, because the column is part of "+
		"the key.",
		cqltype.QuoteName(first[i].Name))
}

// tableOrderedBy returns the declaration of the table with the given columns first in the clustering order.
func (s *study) tableOrderedBy(first []*schema.Column) *declaration {
	d := declarationOf(s.Table)
	var ahead []declared
	names := []string{d.name, "by"}
	for _, c := range first {
		names = append(names, c.Name)
		ahead = append(ahead, declared{name: c.Name, typ: c.Type.String(), desc: c.Desc})
	}
	moved := func(x declared) bool {
		return slices.ContainsFunc(first, func(c *schema.Column) bool { return c.Name == x.name })
	}
	d.name = strings.Join(names, "_")
	d.clustered = slices.Concat(ahead, slices.DeleteFunc(d.clustered, moved))
	d.rest = slices.DeleteFunc(d.rest, moved)
	return d
}
