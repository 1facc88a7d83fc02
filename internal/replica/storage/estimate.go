// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Estimate is the approximate size of a span.
type Estimate struct {
	// Bytes is the size on disk, excluding memtables.
	Bytes uint64
	// Partitions is the number of logical partitions. It is extrapolated from samples unless the number is small.
	Partitions uint64
}

const (
	// sampleSpots is the number of sampled positions of a span. sampleRun is the number of partitions visited at each
	// position. The number is lower if the first rows of the partitions together have sampleBytes bytes, because
	// finding a row requires reading it.
	sampleSpots = 64
	sampleRun   = 32
	sampleBytes = 128 << 10
)

// Estimate measures a span by examining a few hundred keys. Tokens are hashes, so partitions are evenly distributed.
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
	size := r.Limit - r.Begin // a size of 0 represents the whole ring
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

// DiskBytes returns the approximate size of a span on disk, excluding memtables. DiskBytes reads no keys.
func (s *Statistics) DiskBytes(span keys.Span) (uint64, error) {
	lower, upper := span.Bounds()
	n, err := s.db.EstimateDiskUsage(lower, upper)
	return n, s.check(err)
}

// PartitionWalk is one part of a walk over the logical partitions of a span.
type PartitionWalk struct {
	// Now is the second at which a row or a static cell must be live for its partition to count.
	Now int64
	// After is the last partition of the previous part, or nil at the start. Token is the token of After.
	After []byte
	Token token.Token
	// Max is the maximum number of partitions in this part.
	Max int
	// Sizes requests the sizes of partitions. Every row is then read, up to RowsMax per partition.
	Sizes   bool
	RowsMax int
}

// WalkPartitions calls visit for up to p.Max logical partitions of a span that have a live row or a live static cell,
// in ring order. If sizes are requested, it passes the number of bytes read. It updates p for the next part. more is
// false at the end.
func (s *Statistics) WalkPartitions(ctx context.Context, span keys.Span, p *PartitionWalk,
	visit func(tok token.Token, bytes int64)) (more bool, err error) {
	c := partitionWalker{span: span, p: p, left: p.Max, visit: visit}
	r := command.Read{Table: span.Table, Range: span.Tokens(), NoRows: !p.Sizes, Statics: true, Now: p.Now,
		Resume: command.Resume{AfterKey: slices.Clone(p.After), AfterToken: p.Token, AfterPartition: p.After != nil}}
	if t := s.lookupTable(span.Table).installed.Load(); t != nil {
		r.Dropped = t.Dropped
	}
	err = s.reader.Read(ctx, &r, &c)
	c.leave()
	return c.over, err
}

// partitionWalker is the visitor of WalkPartitions.
type partitionWalker struct {
	span  keys.Span
	p     *PartitionWalk
	left  int
	over  bool // at least one partition was not visited
	in    bool // a partition is being read
	rows  int
	bytes int64
	visit func(token.Token, int64)
}

func (c *partitionWalker) leave() {
	if c.in {
		c.in = false
		c.visit(c.p.Token, c.bytes)
	}
}

func (c *partitionWalker) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	c.leave()
	if !c.span.Holds(keys.At(tok, key)) {
		return command.NextPartition, nil
	}
	if c.left == 0 {
		c.over = true
		return command.Stop, nil
	}
	c.left--
	c.in, c.rows, c.bytes = true, 0, int64(len(key))
	if static != nil {
		c.bytes += int64(static.Size())
	}
	if c.p.After, c.p.Token = append(c.p.After[:0], key...), tok; c.p.After == nil {
		c.p.After = []byte{} // the key of a view may be empty, and nil is the beginning
	}
	if !c.p.Sizes {
		return command.NextPartition, nil
	}
	return command.More, nil
}

func (c *partitionWalker) Row(clustering []byte, r *row.Row) (command.Step, error) {
	c.rows++
	c.bytes += int64(len(clustering) + r.Size())
	if c.rows >= c.p.RowsMax {
		return command.NextPartition, nil
	}
	return command.More, nil
}

// sample counts partitions from a key on. It stops when it has counted enough or when the step ends. It also returns
// the width of the ring section that it covered.
func sample(it *pebble.Iterator, key []byte, begin, step uint64) (n, width float64) {
	var prefix []byte
	size := 0
	for valid := it.SeekGE(key); valid; valid = it.SeekGE(append(prefix, 0xff)) {
		p, ok := keys.Parse(it.Key())
		if !ok || p.Token.Position()-begin >= step {
			break
		}
		n++
		if size += len(it.Value()); n == sampleRun || size >= sampleBytes {
			return n, float64(p.Token.Position()-begin) + 1
		}
		prefix = append(prefix[:0], it.Key()[:p.PrefixLen]...)
	}
	return n, float64(step)
}
