// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// sureOf is how many standard deviations bounds are away from what is expected.
	confidence = 5
	// fewest is how many logical partitions, or rows of the result, must have been seen to estimate by.
	minSample = 16
	// pageLooks is what one page of a range looks at, at most: read.Options.PageVisitsMax and a command.
	maxPageVisits = 510_000
)

// spread is what was seen of the logical partitions of a range. Tokens are hashes, so those that were not seen yet are
// like those that were, and as close to each other.
type partitionSample struct {
	begun       bool
	from, width float64 // of the range
	at          token.Token
	// count is the number of partitions that are through, rows that of the one at hand; sum and squares are of rows.
	count, rows  int64
	sum, squares float64
}

// begin notes the range, at its first command.
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

// partition notes that the next logical partition has begun.
func (s *partitionSample) partition(t token.Token) {
	if t == s.at {
		return // the same one, in another command
	}
	if s.rows > 0 {
		s.count++
		s.sum += float64(s.rows)
		s.squares += float64(s.rows) * float64(s.rows)
	}
	s.at, s.rows = t, 0
}

// rest is how much there is in what was not seen of the range, as a multiple of what was: expected, and by how much
// that may be wrong, as a part of it.
func (s *partitionSample) rest() (times, wrong float64) {
	covered := (float64(s.at.Position()) - s.from + 1) / s.width
	n := float64(s.count)
	mean := s.sum / n
	variance := max(0, s.squares/n-mean*mean)
	times = 1/covered - 1
	more := times * n // of which there are a few more or less by chance, too
	return times, math.Sqrt((1 + variance/(mean*mean)) * (1/n + (more+1)/(more*more)))
}

// extrapolate fills in what a statement costs of which only a part was looked at: given rows of the wanted ones were
// found, 0 if all are.
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
	out.Partitions += 1 + left // the one at hand, and those after it
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
