// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// These are the limits for findings, in bytes and values. They are recommendations in Cassandra's documentation.
const (
	idealBytes  = 10e6
	largeBytes  = 100e6
	largeValues = 100_000
)

// study holds a table and the results that all rules compute from the table's sample.
type study struct {
	*Input
	*population
	figures Figures
	// fastest is the fastest-growing partition, or nil. open holds all growing partitions. source describes the origin
	// of their times.
	fastest *growth
	open    []growth
	source  string
	designs []outcome
}

// rules holds one function for each kind of finding, in the order of the report.
var rules = []func(*study) *Finding{
	(*study).unbounded, (*study).large, (*study).skewed, (*study).busy, (*study).fewKeys, (*study).singleRow,
	(*study).conditions,
}

// Advise returns the report on a table.
func Advise(in *Input) Report {
	s := &study{Input: in, population: populationOf(in)}
	s.measure()
	perDay := 0.0
	if s.open, s.source = s.growths(); len(s.open) > 0 {
		s.fastest = fastest(s.open)
		perDay = s.fastest.perDay
	}
	s.designs = candidates(in.Table, s.population, perDay, keysEach*s.needed())
	r := Report{Table: in.Table.String(), Figures: s.figures, Findings: []Finding{}}
	for _, rule := range rules {
		if f := rule(s); f != nil {
			r.Findings = append(r.Findings, *f)
		}
	}
	r.Findings = append(r.Findings, s.fanOuts()...)
	r.Findings = append(r.Findings, s.filterings()...)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return rank(a.Level) - rank(b.Level) })
	return r
}

func rank(l Level) int {
	if l == Warning {
		return 0
	}
	return 1
}

func (s *study) measure() {
	f := &s.figures
	f.PhysicalPartitions, f.Surveyed, f.Complete = s.Physical, len(s.Samples), s.complete
	for i := range s.Samples {
		f.DiskBytes += s.Samples[i].DiskBytes
	}
	f.Sampled, f.LogicalPartitions, f.Rows = len(s.members), s.count, s.rows
	if len(s.members) == 0 {
		return
	}
	top := &s.members[0]
	f.MedianBytes, f.P99Bytes = s.quantile(0.5), s.quantile(0.99)
	f.Largest, f.LargestKey = top.size(), keyText(s.Table, top.Key)
	f.Expected = s.expected(top)
}

// Expected computes the number of values and the size of a logical partition with the formulas in Cassandra's
// documentation. rows is the number of rows. columns, keys, and statics are the numbers of all columns, primary key
// columns, and static columns. keyBytes, staticBytes, and rowBytes are the sizes of the partition key, all static
// columns, and all other columns of a row.
func Expected(rows, columns, keys, statics, keyBytes, staticBytes, rowBytes float64) Size {
	values := rows*(columns-keys-statics) + statics
	return Size{Rows: rows, Values: values, Bytes: keyBytes + staticBytes + rows*rowBytes + 8*values}
}

// expected applies the formulas to a sampled partition.
func (s *study) expected(m *member) Size {
	t := s.Table
	statics := len(t.Statics)
	columns := len(t.PartitionKey) + len(t.Clustering) + statics + len(t.Regulars)
	var bytes, weight float64
	for i := range m.Kept {
		r := &m.Kept[i]
		// Subtract the overhead of Ilion, which is 9 bytes per row and 4 bytes per value, because the formulas add
		// their own overhead.
		bytes += r.Weight * float64(int(r.Bytes)-len(m.Key)-9-4*int(r.Values))
		weight += r.Weight
	}
	key, static := float64(len(m.Key)), 0.0
	if m.StaticBytes > 0 {
		static = max(float64(m.StaticBytes)-key-9-4*float64(statics), 0)
	}
	return Expected(m.Rows, float64(columns), float64(len(t.PartitionKey)+len(t.Clustering)), float64(statics), key,
		static, bytes/max(weight, 1))
}

// basis describes the data from which effects were computed.
func (s *study) basis() string {
	kept := float64(s.keptRows())
	if s.complete && kept >= s.rows {
		return fmt.Sprintf("simulated with all %s rows", group(s.rows))
	}
	if s.complete {
		return fmt.Sprintf("simulated with %s of %s rows", group(kept), group(s.rows))
	}
	return fmt.Sprintf("simulated with %s rows of %s logical partitions, sampled from about %s rows of %s",
		group(kept), group(float64(len(s.members))), roughly(s.rows), roughly(s.count))
}

// divided returns a proposal to divide the partitions of a table, and the effect of the proposal. ok is false if no
// design divides the partitions.
func (s *study) divided() (p Proposal, effect []Change, ok bool) {
	now := s.members[0].size()
	best, others, ok := choose(s.designs, now)
	if !ok {
		return p, nil, false
	}
	p.Text, p.DDL = best.text(), best.declaration().String()
	for i := range others {
		o := &others[i]
		all, _ := o.costs(now, s.rowBytes(), s.Physical)
		p.Instead = append(p.Instead, fmt.Sprintf("%s: PRIMARY KEY (%s); largest logical partition %s; %s RU to "+
			"read all rows of %s",
			o.short(), o.declaration().key(), bytesText(o.largest.Bytes), number(all.units), s.figures.LargestKey))
	}
	return p, s.effect(&best, now), true
}

func (s *study) effect(o *outcome, now Size) []Change {
	before := outcome{design: design{table: s.Table}, largest: part{Size: now}, ofLargest: 1, newest: part{Size: now}}
	all, some := before.costs(now, s.rowBytes(), s.Physical)
	allNew, someNew := o.costs(now, s.rowBytes(), s.Physical)
	off := o.offBy()
	which := "newest"
	if c, _ := timeColumn(s.Table); c == nil {
		which = "first"
	}
	return []Change{
		{What: "size of the largest logical partition", Before: now.Bytes, After: o.largest.Bytes, Unit: Bytes,
			OffBy: off},
		{What: "values in the largest logical partition", Before: now.Values, After: o.largest.Values, Unit: Count,
			OffBy: off},
		{What: "logical partitions of the table", Before: s.count, After: o.parts, Unit: Count},
		{What: fmt.Sprintf("price of reading the %s %d rows of the largest key", which, someRows), Before: some.units,
			After: someNew.units, Unit: RU},
		{What: "  logical partitions read", Before: some.logical, After: someNew.logical, Unit: Count},
		{What: "price of reading all rows of the largest key", Before: all.units, After: allNew.units, Unit: RU},
		{What: "  logical partitions read", Before: all.logical, After: allNew.logical, Unit: Count},
		{What: "  physical partitions read", Before: all.physical, After: allNew.physical, Unit: Count},
	}
}

// text describes a design.
func (d *design) text() string {
	name := cqltype.QuoteName(d.name())
	switch {
	case d.unit != nil:
		return fmt.Sprintf("Add the %s of %s to the partition key, as a column %s that the client computes. A "+
			"logical partition then stops growing after one %s, and can be deleted in one statement.", d.unit.name,
			cqltype.QuoteName(d.table.Clustering[d.column].Name), name, d.unit.name)
	case d.buckets > 0:
		return fmt.Sprintf("Add a column %s to the partition key, which the client computes from the clustering key "+
			"(its hash modulo %d). A query for one row still reads one partition; a query for all rows reads %d.", name,
			d.buckets,
			d.buckets)
	}
	return fmt.Sprintf("Make %s a part of the partition key. Choose this if your queries already specify the column.",
		name)
}

// short returns the short name of a design.
func (d *design) short() string {
	switch {
	case d.unit != nil:
		return "by " + d.unit.name
	case d.buckets > 0:
		return fmt.Sprintf("%d hash buckets", d.buckets)
	}
	return "by " + cqltype.QuoteName(d.name())
}

// keyColumns returns the partition key of a table as text.
func keyColumns(columns []*schema.Column) string {
	var d []declared
	for _, c := range columns {
		d = append(d, columnOf(c))
	}
	return namesOf(d)
}
