// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Estimate is the approximate size of a span.
type Estimate struct {
	// Bytes is the size on disk; what is only in memtables is not in it.
	Bytes uint64
	// Partitions is the number of logical partitions, extrapolated from samples unless there are few.
	Partitions uint64
}

const (
	// sampleSpots is how many places of a span are sampled, sampleRun how many partitions are visited at each.
	sampleSpots = 64
	sampleRun   = 32
)

// Estimate measures a span by looking at a few hundred keys. Tokens are hashes, so partitions are spread evenly over
// them.
func (s *Statistics) Estimate(span keys.Span) (Estimate, error) {
	lower, upper := span.Bounds()
	var e Estimate
	var err error
	if e.Bytes, err = s.db.EstimateDiskUsage(lower, upper); err != nil {
		return e, s.check(err)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return e, s.check(err)
	}
	r := span.Tokens()
	size := r.Limit - r.Begin // 0 is the whole ring
	step := size / sampleSpots
	if size == 0 {
		step = 1 << 58
	}
	if step == 0 {
		step = 1
	}
	var seen, covered float64
	var key []byte
	for i := range uint64(sampleSpots) {
		begin := r.Begin + i*step
		if key = keys.AppendToken(keys.AppendTable(key[:0], span.Table), token.AtPosition(begin)); i == 0 {
			key = append(key[:0], lower...)
		}
		n, width := sample(it, key, begin, step)
		seen += n
		covered += width
	}
	width := float64(step) * sampleSpots
	e.Partitions = uint64(math.Round(seen * width / covered))
	return e, s.check(errors.Join(it.Error(), it.Close()))
}

// CountPartitions counts the logical partitions of a span that have a live row or static cell at the second now. Beyond
// max, if that is not 0, it stops counting and extrapolates; exact says whether it counted to the end.
func (s *Statistics) CountPartitions(ctx context.Context, span keys.Span, now int64, max uint64) (n uint64, exact bool,
	err error) {
	c := partitionCounter{span: span, max: max}
	r := command.Read{Table: span.Table, Range: span.Tokens(), NoRows: true, Now: now}
	if t := s.table(span.Table).installed.Load(); t != nil {
		r.Dropped = t.Dropped
	}
	if err := s.reader.Read(ctx, &r, &c); err != nil {
		return 0, false, err
	}
	if !c.over {
		return c.n, true, nil
	}
	e, err := s.Estimate(span)
	return e.Partitions, false, err
}

// partitionCounter is the visitor of CountPartitions.
type partitionCounter struct {
	span   keys.Span
	n, max uint64
	over   bool
}

func (c *partitionCounter) Partition(tok token.Token, key []byte, _ *row.Row) (command.Step, error) {
	if !c.span.Holds(keys.At(tok, key)) {
		return command.NextPartition, nil
	}
	if c.n++; c.max > 0 && c.n > c.max {
		c.over = true
		return command.Stop, nil
	}
	return command.NextPartition, nil
}

func (c *partitionCounter) Row([]byte, *row.Row) (command.Step, error) {
	return command.NextPartition, nil
}

// sample counts partitions from a key on, until there are enough or the step is over, and says how much of the ring
// that was.
func sample(it *pebble.Iterator, key []byte, begin, step uint64) (n, width float64) {
	var prefix []byte
	for valid := it.SeekGE(key); valid; valid = it.SeekGE(append(prefix, 0xff)) {
		p, ok := keys.Parse(it.Key())
		if !ok || p.Token.Position()-begin >= step {
			break
		}
		n++
		if n == sampleRun {
			return n, float64(p.Token.Position()-begin) + 1
		}
		prefix = append(prefix[:0], it.Key()[:p.PrefixLen]...)
	}
	return n, float64(step)
}
