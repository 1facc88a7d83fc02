// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"math"
)

// Traffic is what was spent on a table, and on the logical partition that took most, in the minutes of the last hour in
// which anybody asked.
type Traffic struct {
	Minutes float64
	// Units are request units, KeyUnits those of Key, which is in words: no more than was counted for it.
	Units, KeyUnits float64
	Key             string
}

const (
	// busyShare is the part of a table's request units that a logical partition must take to be told of, busyTimes how
	// many times an even part that must be, and busyUnits how many request units a second it must take.
	busyShare, busyTimes, busyUnits = 0.25, 5, 100
	// copiesMax is the most copies that are proposed.
	copiesMax = 16
)

// busy tells of a logical partition that takes most of what the table costs, however small it is.
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
	f := &Finding{Kind: Busy, Level: Note, Basis: "computed from the request units of " + plural(t.Minutes, "minute") +
		", for rows of the mean size, " + bytesText(s.rowBytes())}
	if mean > most/2 {
		f.Level = Warning
	}
	f.Headline = fmt.Sprintf("traffic is uneven: %s takes %s %% of the request units of the table", t.Key,
		number(100*share))
	f.Evidence = []Fact{
		{"its share of the request units of the table", 100 * share, Percent},
		{"an even share", 100 / s.count, Percent},
		{"RU/s of it", mean, RUPerSec},
		{"RU/s of the table", t.Units / max(60*t.Minutes, 1), RUPerSec},
		{"RU/s that one logical partition can use at most", most, RUPerSec},
	}
	copies := min(max(math.Ceil(2*mean/most), 2), copiesMax)
	d := declarationOf(s.Table)
	d.partition = append(d.partition, declared{name: free(s.Table, "copy"), typ: "int"})
	f.Proposal = Proposal{DDL: d.String(), Text: fmt.Sprintf("If it is mostly read, keep %s copies of each row: a column "+
		"copy in the partition key, of which readers choose one by chance, and writers write all. If it is mostly "+
		"written, write one of them by chance, and read all.", number(copies))}
	write := writeRow(s.rowBytes(), false)
	f.Effect = []Change{
		{What: "RU/s of its busiest logical partition", Before: mean, After: mean / copies, Unit: RUPerSec},
		{What: "RU/s that it can use at most", Before: most, After: copies * most, Unit: RUPerSec},
		{What: "price of a write of all copies of a row", Before: write, After: copies * write, Unit: RU},
	}
	return f
}
