// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// large reports logical partitions above 10 MB, 100 MB, or 100,000 values.
func (s *study) large() *Finding {
	top := s.figures.Largest
	if top.Bytes <= idealBytes && top.Values <= largeValues {
		return nil
	}
	f := &Finding{Kind: Large, Level: Note, Basis: s.basis()}
	what := []string{}
	if top.Bytes > idealBytes {
		what = append(what, bytesText(top.Bytes))
	}
	if top.Values > largeValues {
		what = append(what, roughly(top.Values)+" values")
	}
	if top.Bytes > largeBytes || top.Values > largeValues {
		f.Level = Warning
	}
	f.Headline = fmt.Sprintf("logical partition %s is large: %s", s.figures.LargestKey, joined(what))
	f.Evidence = []Fact{
		{"size of " + s.figures.LargestKey, top.Bytes, Bytes},
		{"values (recommended maximum: 100,000)", top.Values, Count},
		{"rows", top.Rows, Count},
		{"logical partitions above 10 MB (ideal maximum)", s.above(idealBytes, 0), Count},
		{"logical partitions above 100 MB (recommended maximum)", s.above(largeBytes, 0), Count},
		{"logical partitions above 100,000 values", s.above(0, largeValues), Count},
		{"values calculated for this number of rows", s.figures.Expected.Values, Count},
		{"size calculated for this number of rows", s.figures.Expected.Bytes, Bytes},
	}
	var ok bool
	if f.Proposal, f.Effect, ok = s.divided(); !ok {
		f.Proposal, f.Effect = s.chunked()
	}
	return f
}

// chunkBytes is the proposed size of the pieces of large values.
const chunkBytes = 1e6

// chunked proposes to store large rows in pieces if no key divides a partition.
func (s *study) chunked() (Proposal, []Change) {
	row := s.figures.Largest.Bytes / max(s.figures.Largest.Rows, 1)
	piece := min(row, chunkBytes)
	d := declarationOf(s.Table)
	d.clustered = append(d.clustered, declared{name: free(s.Table, "chunk"), typ: "int"})
	return Proposal{DDL: d.String(), Text: fmt.Sprintf("No key column divides this partition: it has %s of %s each. "+
			"Split large values into "+
			"rows of %s, or store them outside the database.", plural(s.figures.Largest.Rows, "row"), bytesText(row),
			bytesText(piece))},
		[]Change{
			{What: "size of a row", Before: row, After: piece, Unit: Bytes},
			{What: "price of reading a row", Before: readPart(1, row), After: readPart(1, piece), Unit: RU},
			{What: "price of writing a row", Before: writeRow(row, false), After: writeRow(piece, false), Unit: RU},
		}
}

const (
	// openPart is the maximum time between the newest row of a growing partition and the newest row of the table, as a
	// fraction of the time span of all rows. longPart is the minimum fraction of this time span that the rows of a
	// growing partition cover.
	openPart, longPart = 0.1, 0.5
	// grownShare is the minimum share of the table's bytes in growing partitions.
	grownShare = 0.5
	// horizonMin is the minimum time span of all rows for a meaningful rate. rowsMin is the minimum number of rows of a
	// partition.
	horizonMin, rowsMin = time.Hour, 20
	// soon is the maximum number of days until a partition reaches 100 MB for a warning. late is the maximum number of
	// days for a finding.
	soon, late = 365, 10 * 365
)

// growth describes the growth of a logical partition.
type growth struct {
	member      *member
	first, last time.Time
	perDay      float64
}

// unbounded reports partitions that contain rows of all times and continue to grow.
func (s *study) unbounded() *Finding {
	top := s.fastest
	if top == nil {
		return nil
	}
	days := max(largeBytes-top.member.Bytes, 0) / top.perDay // days after the newest row
	if days > late {
		return nil
	}
	key := keyText(s.Table, top.member.Key)
	f := &Finding{Kind: Unbounded, Level: Note, Basis: s.basis()}
	if days < soon {
		f.Level = Warning
	}
	f.Headline = fmt.Sprintf("logical partitions grow without limit: %s grows by %s per day", key,
		bytesText(top.perDay))
	f.Evidence = []Fact{
		{fmt.Sprintf("time range of the rows of %s, from %s (%s to %s)", key, s.source, top.first.Format(time.DateOnly),
			top.last.Format(time.DateOnly)), top.last.Sub(top.first).Hours() / 24, Days},
		{"current size", top.member.Bytes, Bytes},
		{"growth per day", top.perDay, Bytes},
		{"time until it reaches 100 MB", days, Days},
		{"sampled logical partitions that also grow", float64(len(s.open)), Count},
	}
	if ttl := s.Table.Options.DefaultTTL; ttl > 0 {
		bound := top.perDay * float64(ttl) / 86400
		if bound <= idealBytes {
			return nil
		}
		f.Headline = fmt.Sprintf("logical partitions grow until rows expire: %s grows to %s", key, bytesText(bound))
		f.Evidence = append(f.Evidence, Fact{"size when the oldest rows expire (default_time_to_live)", bound, Bytes})
	}
	f.Proposal, f.Effect = s.bounded(top)
	return f
}

// growths returns the sampled partitions that have grown during most of the time span of the rows and still grow. It
// returns no partitions unless these partitions contain most of the bytes. source describes the origin of the times.
func (s *study) growths() (open []growth, source string) {
	if len(s.Table.Clustering) == 0 || slices.ContainsFunc(s.Table.PartitionKey, isTime) {
		return nil, "" // the key already limits the partition by time
	}
	column, i := timeColumn(s.Table)
	if column != nil && column.Mask != nil {
		column = nil // the evidence contains the values of the key
	}
	source = "their timestamps"
	if column != nil {
		source = cqltype.QuoteName(column.Name)
	}
	var all []growth
	var begin, end time.Time
	for j := range s.members {
		m := &s.members[j]
		g := growth{member: m}
		if !g.times(s.Table, column, i) {
			continue
		}
		if begin.IsZero() || g.first.Before(begin) {
			begin = g.first
		}
		if g.last.After(end) {
			end = g.last
		}
		all = append(all, g)
	}
	horizon := end.Sub(begin)
	if horizon < horizonMin || column == nil && horizon < 24*time.Hour {
		return nil, source
	}
	var bytes, grown float64
	for _, g := range all {
		bytes += g.member.weight * g.member.Bytes
		lasts := g.last.Sub(g.first)
		if g.member.Rows >= rowsMin && float64(lasts) >= longPart*float64(horizon) &&
			float64(end.Sub(g.last)) <= openPart*float64(horizon) {
			g.perDay = g.member.Bytes / (lasts.Hours() / 24)
			open = append(open, g)
			grown += g.member.weight * g.member.Bytes
		}
	}
	if grown < grownShare*bytes {
		return nil, source
	}
	return open, source
}

// times determines the time span of a partition's rows. If the key has no time column, times uses the write times. In
// this case, the rows must have been written in the order of their keys, because overwritten rows could be mistaken for
// growth.
func (g *growth) times(t *schema.Table, column *schema.Column, place int) bool {
	kept := g.member.Kept
	if len(kept) == 0 {
		return false
	}
	up, down := 0, 0
	for i := range kept {
		at := time.UnixMicro(kept[i].Written).UTC()
		if column != nil {
			var ok bool
			if at, ok = clusteringInstant(t, kept[i].Clustering, place); !ok {
				return false
			}
		} else if i > 0 && kept[i].Written > kept[i-1].Written {
			up++
		} else if i > 0 && kept[i].Written < kept[i-1].Written {
			down++
		}
		if g.first.IsZero() || at.Before(g.first) {
			g.first = at
		}
		if at.After(g.last) {
			g.last = at
		}
	}
	return column != nil || 10*max(up, down) >= 9*(len(kept)-1)
}

// fastest returns the fastest-growing partition.
func fastest(open []growth) *growth {
	top := &open[0]
	for i := range open {
		if open[i].perDay > top.perDay {
			top = &open[i]
		}
	}
	return top
}

// bounded proposes a key that limits partitions by time.
func (s *study) bounded(top *growth) (Proposal, []Change) {
	for i := range s.designs {
		o := &s.designs[i]
		if o.unit == nil {
			continue
		}
		now := s.members[0].size()
		effect := s.effect(o, now)
		return Proposal{Text: o.text(), DDL: o.declaration().String()}, append(effect, Change{
			What: "size of the largest logical partition after a year", Before: top.member.Bytes + 365*top.perDay,
			After: max(o.largest.Bytes, o.full), Unit: Bytes, OffBy: o.offBy()})
	}
	d := declarationOf(s.Table)
	d.partition = append(d.partition, declared{name: free(s.Table, "month"), typ: "date"})
	month := top.perDay * 30
	return Proposal{Text: "Add the month in which a row is written, or another period of time, to the partition " +
			"key. The " +
			"logical partitions of earlier periods then stop growing.", DDL: d.String()},
		[]Change{
			{What: "size of the largest logical partition after a year", Before: top.member.Bytes + 365*top.perDay,
				After: month,
				Unit:  Bytes, OffBy: 100 / math.Sqrt(max(float64(len(top.member.Kept)), 1))},
			{What: "price of reading all its rows after a year",
				Before: readPart((top.member.Bytes+365*top.perDay)/s.rowBytes(),
					top.member.Bytes+365*top.perDay), After: readPart(month/s.rowBytes(), month), Unit: RU},
			{What: "  logical partitions read", Before: 1, After: 12 +
				math.Ceil(top.last.Sub(top.first).Hours()/24/30), Unit: Count},
		}
}

const (
	// skewTimes is the minimum ratio of the largest partition to the mean size in a skewed table. skewBytes is the
	// minimum size of the largest partition. skewKeys is the minimum number of partitions.
	skewTimes, skewBytes, skewKeys = 5, 1e6, 10
)

// skewed reports partitions that are much larger than other partitions.
func (s *study) skewed() *Finding {
	top := s.figures.Largest
	if s.count < skewKeys || top.Bytes < skewBytes || top.Bytes < skewTimes*s.mean() {
		return nil
	}
	times := top.Bytes / s.mean()
	f := &Finding{Kind: Skewed, Level: Note, Basis: s.basis()}
	if top.Bytes > idealBytes {
		f.Level = Warning
	}
	f.Headline = fmt.Sprintf("logical partitions differ in size: %s is %s times the mean", s.figures.LargestKey,
		number(times))
	f.Evidence = []Fact{
		{"size of " + s.figures.LargestKey, top.Bytes, Bytes},
		{"mean size of a logical partition", s.mean(), Bytes},
		{"median size of a logical partition", s.figures.MedianBytes, Bytes},
		{"ratio of the largest to the mean", times, Times},
		{"share of the table", 100 * top.Bytes / max(s.bytes, 1), Percent},
	}
	var ok bool
	if f.Proposal, f.Effect, ok = s.divided(); !ok {
		f.Proposal, f.Effect = s.chunked()
	}
	return f
}

const (
	// keysEach is the minimum number of logical partitions per physical partition for an even distribution.
	keysEach = 10
	// fewKeysBytes is the minimum size of a table without provisioned throughput for a finding.
	fewKeysBytes = 1e9
	// unitsEach and bytesEach are the capacity of a physical partition.
	unitsEach, bytesEach = 10_000, 30e9
)

// needed returns the number of physical partitions that the table has or needs.
func (s *study) needed() float64 {
	return math.Ceil(max(float64(s.Physical), float64(s.Throughput.Units)/unitsEach, s.bytes/bytesEach))
}

// fewKeys reports tables with too few keys for an even distribution over their physical partitions.
func (s *study) fewKeys() *Finding {
	units, need := float64(s.Throughput.Units), s.needed()
	if units == 0 && s.bytes < fewKeysBytes || need < 2 || s.count == 0 || s.count >= keysEach*need {
		return nil
	}
	f := &Finding{Kind: FewKeys, Level: Warning, Basis: s.basis()}
	f.Headline = fmt.Sprintf("%s logical partitions are too few for %s physical partitions", roughly(s.count),
		number(need))
	share := s.figures.Largest.Bytes / max(s.bytes, 1)
	f.Evidence = []Fact{
		{"logical partitions", s.count, Count},
		{"physical partitions that the table needs", need, Count},
		{"maximum number of physical partitions that these keys can use", s.count, Count},
		{"share of the table in " + s.figures.LargestKey, 100 * share, Percent},
		{"share of a physical partition in an even distribution", 100 / need, Percent},
	}
	var ok bool
	if f.Proposal, f.Effect, ok = s.divided(); !ok {
		f.Proposal.Text = fmt.Sprintf("Choose a partition key with more values than %s has.",
			keyColumns(s.Table.PartitionKey))
		f.Effect = []Change{{What: "logical partitions per physical partition", Before: s.count / need, After: keysEach,
			Unit: Times}}
		return f
	}
	if units > 0 {
		each := units / need
		after := f.Effect[2].After
		f.Effect = append(f.Effect, Change{What: "maximum RU/s of the largest key", Before: each,
			After: min(each*max(1, f.Effect[7].After), units), Unit: RUPerSec})
		f.Effect = append(f.Effect, Change{What: "logical partitions per physical partition", Before: s.count / need,
			After: after / need, Unit: Times})
	}
	return f
}

const (
	// conditionsMin is the minimum number of conditional writes for a finding. conditionsPart is the minimum share of
	// conditional writes in all writes.
	conditionsMin, conditionsPart = 100, 0.1
)

// conditions reports the cost of writes with IF.
func (s *study) conditions() *Finding {
	var writes, conditions float64
	for i := range s.Samples {
		writes += float64(s.Samples[i].Writes)
		conditions += float64(s.Samples[i].Conditions)
	}
	all := writes
	if s.Table.Counter || conditions < conditionsMin || conditions < conditionsPart*all {
		return nil
	}
	with, without := writeRow(s.rowBytes(), true), writeRow(s.rowBytes(), false)
	part := conditions / all
	f := &Finding{Kind: Condition, Level: Note,
		Basis: "calculated for a row of mean size, " + bytesText(s.rowBytes())}
	if part > 0.5 {
		f.Level = Warning
	}
	f.Headline = fmt.Sprintf("%s %% of all writes have a condition: each costs %s RU instead of %s", number(100*part),
		number(with), number(without))
	f.Evidence = []Fact{
		{"conditional writes since the leaders started", conditions, Count},
		{"all writes", all, Count},
		{"price of a write whose condition is met", with, RU},
		{"price of a write whose condition is not met", with - without, RU},
		{"price of a write without a condition", without, RU},
	}
	f.Proposal.Text = "Write without a condition if the key alone identifies a row: a uuid or timeuuid generated by " +
		"the client " +
		"does not need IF NOT EXISTS, and a retried INSERT writes the same row. Conditional writes to one logical " +
		"partition run one after another."
	if t := s.Table; len(t.Clustering) == 0 && t.PartitionKey[0].Type.Kind != cqltype.UUID {
		d := declarationOf(t)
		d.clustered = append(d.clustered, declared{name: free(t, "version"), typ: "timeuuid", desc: true})
		f.Proposal.DDL = d.String()
		f.Proposal.Text += " Or store each version as a row, and read the newest version (LIMIT 1)."
	}
	f.Effect = []Change{
		{What: "price of a write", Before: with, After: without, Unit: RU},
		{What: "price of all previous writes", Before: conditions*with + (all-conditions)*without, After: all * without,
			Unit: RU},
	}
	return f
}
