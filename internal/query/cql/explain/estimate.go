// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// confidence is the distance between the expected value and each bound in standard deviations.
	confidence = 5
	// minSample is the minimum number of logical partitions or result rows for an estimate.
	minSample = 16
	// maxPageVisits is the maximum number of keys that a range read visits for one page. The value is the sum of
	// read.Options.PageVisitsMax and the number of keys for one command.
	maxPageVisits = 510_000
)

// partitionSample holds statistics of the logical partitions that have been read in a range. Tokens are hashes, so the
// remaining partitions have the same distribution and density.
type partitionSample struct {
	begun       bool
	from, width float64 // start and width of the range
	at          token.Token
	// count is the number of complete partitions. rows is the number of rows of the current partition. sum is the total
	// number of rows in complete partitions. squares is the sum of the squared row counts.
	count, rows  int64
	sum, squares float64
}

// begin records the range at the start of the first command.
func (s *partitionSample) begin(c *command.Read) {
	if s.begun {
		return
	}
	s.begun = true
	from := c.Range.Begin
	if c.AfterKey != nil {
		from = max(from, c.AfterToken.Position())
	}
	s.from = float64(from)
	s.width = float64(c.Range.Limit - from)
	if c.Range.Limit == from {
		s.width = math.Exp2(64)
	} else if c.Range.Limit == 0 {
		s.width = math.Exp2(64) - s.from
	}
}

// partition records the start of the next logical partition.
func (s *partitionSample) partition(t token.Token) {
	if t == s.at {
		return // a further command continues the same partition
	}
	if s.rows > 0 {
		s.count++
		s.sum += float64(s.rows)
		s.squares += float64(s.rows) * float64(s.rows)
	}
	s.at, s.rows = t, 0
}

// rest returns the expected size of the unread part of the range as a multiple of the read part. It also returns the
// relative standard deviation of this estimate.
func (s *partitionSample) rest() (times, wrong float64) {
	covered := (float64(s.at.Position()) - s.from + 1) / s.width
	n := float64(s.count)
	mean := s.sum / n
	variance := max(0, s.squares/n-mean*mean)
	times = 1/covered - 1
	more := times * n // expected number of unread partitions, which also varies
	return times, math.Sqrt((1 + variance/(mean*mean)) * (1/n + (more+1)/(more*more)))
}

// extrapolate sets the price of a statement whose rows have been read only partially. given is the number of rows that
// have been found. wanted is the number of rows that the statement needs, or 0 if it needs all rows.
func (l *peekReader) extrapolate(out *Price, given, wanted int64) {
	out.Min = l.price + l.meter.Price(&l.c)
	out.Expected, out.Max = out.Min, Unknown
	if l.c.Key != nil {
		return
	}
	all := l.snapshot.Partitions(l.c.Table)
	left := 0
	for _, p := range all {
		r, ok := p.Span.Tokens().Intersect(l.c.Range)
		if ok && r.Begin > l.sample.at.Position() {
			left++
		}
	}
	out.Partitions += 1 + left // the current partition and the following partitions
	if l.sample.count < minSample {
		return
	}
	variable := float64(l.price+l.meter.Price(&l.c)) - float64(out.Partitions-left)*float64(ru.Partition)
	times, wrong := l.sample.rest()
	low, mid, high := times*max(0, 1-confidence*wrong), times, times*(1+confidence*wrong)
	if wanted > 0 {
		high = min(high, float64(maxPageVisits)/float64(max(1, l.rows)))
	}
	if wanted > 0 && given >= minSample {
		more := float64(wanted-given) / float64(given)
		off := confidence / math.Sqrt(float64(given))
		low, mid, high = min(low, more*max(0, 1-off)), min(mid, more), min(high, more*(1+off))
	}
	begun := out.Min
	out.Min += ru.Units(variable * low)
	out.Expected = begun + ru.Units(variable*mid) + ru.Units(float64(left)*mid/times)*ru.Partition
	out.Max = begun + ru.Units(variable*high) + ru.Units(left)*ru.Partition
}
