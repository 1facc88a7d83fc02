// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

const (
	// roundPart is the minimum fraction of sampled keys that must be whole units, such as hours, if the key is a period
	// of time. keysMin is the minimum number of keys.
	roundPart, keysMin = 0.95, 3
	// perPeriod is the assumed number of writes per period if the actual number is unknown.
	perPeriod = 1000
)

// singleRow reports tables whose key is a period of time, such as an hour, and that keep only one row per period,
// because a write replaces earlier writes to the same period.
func (s *study) singleRow() *Finding {
	t := s.Table
	if len(t.Clustering) > 0 || len(t.Regulars) == 0 || t.Counter {
		return nil
	}
	column, period, round, keys := s.period()
	if column == nil || keys < keysMin || float64(round) < roundPart*float64(keys) {
		return nil
	}
	name := cqltype.QuoteName(column.Name)
	f := &Finding{Kind: SingleRow, Level: Warning}
	f.Headline = fmt.Sprintf("a logical partition holds only one row: each write to the same %s of %s replaces the "+
		"previous row", period,
		name)
	f.Evidence = []Fact{
		{fmt.Sprintf("sampled keys whose %s is rounded to the %s", name, period), float64(round), Count},
		{"sampled keys", float64(keys), Count},
		{"rows in the largest logical partition", s.figures.Largest.Rows, Count},
	}
	var writes float64
	for i := range s.Samples {
		writes += float64(s.Samples[i].Writes)
	}
	each, known := float64(perPeriod), writes >= 2*s.rows
	if known {
		each = writes / max(s.rows, 1)
		f.Headline += fmt.Sprintf(" (%s of %s writes)", roughly(writes-s.rows), roughly(writes))
		f.Evidence = append(f.Evidence, Fact{"writes since the leaders started", writes, Count},
			Fact{"stored rows", s.rows, Count}, Fact{"writes per row", each, Times})
		f.Basis = "calculated from the number of writes, for rows of mean size, " + bytesText(s.rowBytes())
	} else {
		f.Basis = fmt.Sprintf("calculated for %d writes per %s and rows of mean size, %s", perPeriod, period,
			bytesText(s.rowBytes()))
	}
	d := declarationOf(t)
	id := free(t, "id")
	d.clustered = append(d.clustered, declared{name: id, typ: "timeuuid"})
	f.Proposal = Proposal{DDL: d.String(), Text: fmt.Sprintf("Add a clustering column that distinguishes rows of "+
		"the same %s, "+
		"such as a timeuuid (now()). The table then keeps all rows, in the order of their writes.", period)}
	for _, c := range t.Regulars {
		if c.Type.Kind == cqltype.Text {
			f.Proposal.Instead = append(f.Proposal.Instead, fmt.Sprintf("use an existing column, if its values "+
				"are distinct: PRIMARY KEY ((%s), %s)", keyColumns(t.PartitionKey), cqltype.QuoteName(c.Name)))
			break
		}
	}
	bytes := s.rowBytes() + 16
	f.Effect = []Change{
		{What: "rows kept per " + period, Before: 1, After: each, Unit: Count},
		{What: "size of the logical partition", Before: s.rowBytes(), After: each * bytes, Unit: Bytes},
		{What: "price of reading all its rows", Before: readPart(1, s.rowBytes()), After: readPart(each, each*bytes),
			Unit: RU},
		{What: "price of a write", Before: writeRow(s.rowBytes(), false), After: writeRow(bytes, false), Unit: RU},
	}
	return f
}

// period returns a partition key column with instants if another column also has instants. round is the number of
// sampled keys that are a whole day, hour, or minute.
func (s *study) period() (column *schema.Column, name string, round, keys int) {
	t := s.Table
	if len(t.PartitionKey) != 1 || !isTime(t.PartitionKey[0]) || t.PartitionKey[0].Type.Kind == cqltype.Timeuuid {
		return nil, "", 0, 0
	}
	column = t.PartitionKey[0]
	var whole [3]int
	periods := []time.Duration{24 * time.Hour, time.Hour, time.Minute}
	for i := range s.members {
		at, ok := instant(column, s.members[i].Key)
		if !ok {
			continue
		}
		keys++
		for j, d := range periods {
			if at.UnixMilli()%d.Milliseconds() == 0 {
				whole[j]++
			}
		}
	}
	for j, name := range []string{"day", "hour", "minute"} {
		if float64(whole[j]) >= roundPart*float64(keys) {
			return column, name, whole[j], keys
		}
	}
	return column, "minute", whole[2], keys
}
