// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"math"
)

// Traffic is the usage of a table and its busiest logical partition. It covers the minutes of the last hour in which
// requests arrived.
type Traffic struct {
	Minutes float64
	// Units is the total cost in request units. KeyUnits is the cost of the logical partition with the readable name
	// Key.
	Units, KeyUnits float64
	Key             string
}

const (
	// busyShare is the minimum share of the table's request units for a busy logical partition. busyTimes is the
	// minimum multiple of an even share. busyUnits is the minimum number of request units per second.
	busyShare, busyTimes, busyUnits = 0.25, 5, 100
	// copiesMax is the maximum number of proposed copies.
	copiesMax = 16
)

// busy reports a logical partition that causes much of the table's cost, regardless of its size.
func (s *study) busy() *Finding {
	t := &s.Traffic
	share, mean := t.KeyUnits/max(t.Units, 1), t.KeyUnits/max(60*t.Minutes, 1)
	if s.count < 2 || share < busyShare || share*s.count < busyTimes || mean < busyUnits {
		return nil
	}
	most := float64(unitsEach)
	if units := float64(s.Throughput.Units); units > 0 {
		most = min(most, units/s.needed())
	}
	f := &Finding{Kind: Busy, Level: Note, Basis: "calculated from the request units of " +
		plural(t.Minutes, "minute") + ", for rows of mean size, " + bytesText(s.rowBytes())}
	if mean > most/2 {
		f.Level = Warning
	}
	f.Headline = fmt.Sprintf("load is uneven: %s uses %s %% of the table's request units", t.Key,
		number(100*share))
	f.Evidence = []Fact{
		{"share of the table's request units", 100 * share, Percent},
		{"share in an even distribution", 100 / s.count, Percent},
		{"RU/s of the logical partition", mean, RUPerSec},
		{"RU/s of the table", t.Units / max(60*t.Minutes, 1), RUPerSec},
		{"maximum RU/s of a logical partition", most, RUPerSec},
	}
	copies := min(max(math.Ceil(2*mean/most), 2), copiesMax)
	d := declarationOf(s.Table)
	d.partition = append(d.partition, declared{name: free(s.Table, "copy"), typ: "int"})
	f.Proposal = Proposal{DDL: d.String(), Text: fmt.Sprintf("If the partition is mostly read, store %s copies of "+
		"each row, with an additional "+
		"column copy in the partition key. Readers choose a random copy, and writers write all copies. If it is "+
		"mostly written, write to a random copy, and read all copies.", number(copies))}
	write := writeRow(s.rowBytes(), false)
	f.Effect = []Change{
		{What: "RU/s of the busiest logical partition", Before: mean, After: mean / copies, Unit: RUPerSec},
		{What: "maximum RU/s of the rows", Before: most, After: copies * most, Unit: RUPerSec},
		{What: "price of writing all copies of a row", Before: write, After: copies * write, Unit: RU},
	}
	return f
}
