// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

const (
	// few is the maximum number of physical partitions that a query may read without a finding. Tables above manyUnits
	// request units per second or manyBytes have or will have more physical partitions.
	few       = 2
	manyUnits = 30_000
	manyBytes = 100e9
	// shapesShown is the maximum number of findings about kinds of reads. The most expensive kinds come first.
	shapesShown = 3
	// inOne is the maximum size, in bytes, of a table that fits in one logical partition.
	inOne = targetBytes
)

// fanOuts reports reads of all physical partitions. These are observed reads and reads for which an index exists.
func (s *study) fanOuts() (out []Finding) {
	asked := map[string]bool{}
	for _, sh := range s.dearest(false) {
		asked[sh.Index] = true
		if len(out) < shapesShown {
			out = append(out, *s.fanOut(sh))
		}
	}
	for _, name := range indexNames(s.Table) {
		if !asked[name] && (s.Physical > few || s.many()) && s.rows > 0 {
			out = append(out, *s.indexed(s.Table.Indexes[name]))
		}
	}
	return out
}

// dearest returns the observed kinds of reads with or without partition keys, starting with the most expensive kind.
func (s *study) dearest(keyed bool) (out []*Shape) {
	for i := range s.Shapes {
		if sh := &s.Shapes[i]; sh.Count > 0 && sh.Keyed == keyed {
			out = append(out, sh)
		}
	}
	slices.SortFunc(out, func(a, b *Shape) int {
		return cmp.Or(cmp.Compare(b.Units, a.Units), strings.Compare(a.Text, b.Text))
	})
	return out
}

func indexNames(t *schema.Table) (names []string) {
	for _, ix := range t.ShownIndexes() {
		names = append(names, ix.Name)
	}
	return names
}

// many reports whether the size or the throughput of the table requires more than a few physical partitions.
func (s *study) many() bool {
	return s.Throughput.Units > manyUnits || float64(s.figures.DiskBytes) > manyBytes
}

func (s *study) level() Level {
	if s.many() || s.Physical > few {
		return Warning
	}
	return Note
}

// fanOut returns the finding about one kind of read.
func (s *study) fanOut(sh *Shape) *Finding {
	f := &Finding{Kind: FanOut, Level: s.level()}
	each, rows := sh.Units/float64(sh.Count), float64(sh.Rows)/float64(sh.Count)
	f.Headline = fmt.Sprintf("a query reads all physical partitions: %s, %s RU per query", sh.words(), number(each))
	var units float64
	for i := range s.Samples {
		units += s.Samples[i].Units
	}
	f.Evidence = []Fact{
		{"number of queries on the nodes that responded", float64(sh.Count), Count},
		{"price of a query", each, RU},
		{"rows per query", rows, Count},
		{"physical partitions read for the complete result", float64(s.Physical), Count},
	}
	if units > sh.Units {
		f.Evidence = append(f.Evidence, Fact{"share of the table's request units",
			100 * sh.Units / units, Percent})
	}
	f.Evidence = append(f.Evidence, s.thresholds()...)
	f.Basis = fmt.Sprintf("calculated for %s rows of mean size, %s", roughly(rows), bytesText(s.rowBytes()))
	column := s.lookup(sh)
	if column == nil {
		s.wholeTable(f, each)
		return f
	}
	s.byColumn(f, column, each, rows)
	return f
}

// words describes a kind of read.
func (sh *Shape) words() string {
	text := "SELECT of the whole table"
	if sh.Text != "" {
		text = "SELECT ... " + sh.Text
	}
	if sh.Index != "" {
		text += " (index " + sh.Index + ")"
	}
	return text
}

// thresholds returns the limits above which a table has more than a few physical partitions.
func (s *study) thresholds() (facts []Fact) {
	if s.Throughput.Units > manyUnits {
		facts = append(facts, Fact{"throughput of the table (up to 30,000 RU/s need few partitions)",
			float64(s.Throughput.Units), RUPerSec})
	}
	if float64(s.figures.DiskBytes) > manyBytes {
		facts = append(facts, Fact{"size on disk (up to 100 GB need few partitions)", float64(s.figures.DiskBytes),
			Bytes})
	}
	return facts
}

// lookup returns a column that could be a partition key and that a kind of read compares with one value, or nil.
func (s *study) lookup(sh *Shape) *schema.Column {
	for _, name := range sh.Equal {
		if c := s.Table.ByName[name]; c != nil && !c.Type.MultiCell() && c.Type.Kind != cqltype.Counter {
			return c
		}
	}
	return nil
}

// byColumn proposes a table for reads by a column.
func (s *study) byColumn(f *Finding, c *schema.Column, each, rows float64) {
	d := s.tableBy(c)
	f.Proposal = Proposal{DDL: d.String(), Text: fmt.Sprintf("Create a second table with the partition key %s, and "+
		"write each row to both tables. A "+
		"query then reads one logical partition.", cqltype.QuoteName(c.Name))}
	f.Effect = []Change{
		{What: "price of a query", Before: each, After: readPart(rows, rows*s.rowBytes()), Unit: RU},
		{What: "physical partitions read per query", Before: float64(s.Physical), After: 1, Unit: Count},
		{What: "price of a write (to both tables in the proposal)", Before: writeRow(s.rowBytes(), false),
			After: 2 * writeRow(s.rowBytes(), false), Unit: RU},
	}
}

// tableBy returns the declaration of the table with a column as the partition key.
func (s *study) tableBy(c *schema.Column) *declaration {
	d := declarationOf(s.Table)
	d.name += "_by_" + c.Name
	is := func(x declared) bool { return x.name == c.Name }
	d.clustered = slices.DeleteFunc(slices.Concat(d.partition, d.clustered), is)
	d.rest = slices.DeleteFunc(d.rest, is)
	for i := range d.rest {
		d.rest[i].static = false
	}
	d.partition = []declared{{name: c.Name, typ: c.Type.String()}}
	return d
}

// wholeTable adds proposals for reads of the whole table.
func (s *study) wholeTable(f *Finding, each float64) {
	if s.bytes > inOne || s.count <= 1 {
		f.Proposal.Text = "A query for the whole table reads every physical partition, regardless of the key. Run " +
			"it rarely, " +
			"query token ranges, or store the requested data in another table whose key the query specifies."
		f.Effect = []Change{{What: "price of a query that specifies the key of a logical partition of mean size",
			Before: each,
			After:  readPart(s.rows/max(s.count, 1), s.mean()), Unit: RU}}
		return
	}
	buckets := 1
	d := declarationOf(s.Table)
	d.name += "_list"
	d.clustered = slices.Concat(d.partition, d.clustered)
	d.partition = []declared{{name: free(s.Table, "bucket"), typ: "int"}}
	for i := range d.rest {
		d.rest[i].static = false
	}
	f.Proposal = Proposal{DDL: d.String(), Text: fmt.Sprintf("The whole table has %s, which fits in one logical "+
		"partition. Create "+
		"a second table with bucket = 0 in each row. Add buckets before the table reaches 10 MB.", bytesText(s.bytes))}
	f.Effect = []Change{
		{What: "price of a query", Before: each, After: readPart(s.rows, s.bytes), Unit: RU},
		{What: "physical partitions read per query", Before: float64(s.Physical), After: float64(buckets), Unit: Count},
		{What: "size of the largest logical partition", Before: s.figures.Largest.Bytes, After: s.bytes, Unit: Bytes},
	}
}

// indexed returns the finding about an index without known reads.
func (s *study) indexed(ix *schema.Index) *Finding {
	f := &Finding{Kind: FanOut, Level: s.level()}
	least := scanTable(s.Physical, 1, s.rowBytes())
	f.Headline = fmt.Sprintf("a query by index %s without a partition key reads all %d physical partitions: %s RU "+
		"for one row",
		ix.Name, s.Physical, number(least))
	f.Evidence = append([]Fact{
		{"physical partitions", float64(s.Physical), Count},
		{"price of a query that finds one row", least, RU},
	}, s.thresholds()...)
	f.Basis = "calculated for a query that finds one row of mean size, " + bytesText(s.rowBytes())
	c := s.Table.ByName[ix.Column]
	if c == nil || c.Type.MultiCell() {
		f.Proposal.Text = "Also specify the partition key in queries that use the index."
		f.Effect = []Change{{What: "price of a query with the partition key", Before: least,
			After: readPart(1, s.rowBytes()), Unit: RU}}
		return f
	}
	s.byColumn(f, c, least, 1)
	return f
}
