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
	// sampleSpots is the number of sampled positions of a span. sampleRun is the maximum number of partitions visited
	// at each position. A visit also stops when the first rows of the partitions exceed sampleBytes bytes in total.
	sampleSpots = 64
	sampleRun   = 32
	sampleBytes = 128 << 10
)

// Estimate measures a span by examining a few hundred keys. It assumes that partitions are evenly distributed, because
// tokens are hashes.
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

// DiskBytes returns the approximate size of a span on disk, excluding memtables, without reading keys.
func (s *Statistics) DiskBytes(span keys.Span) (uint64, error) {
	lower, upper := span.Bounds()
	n, err := s.db.EstimateDiskUsage(lower, upper)
	return n, s.check(err)
}

// PartitionWalk is one part of a walk over the logical partitions of a span.
type PartitionWalk struct {
	// Now is the second at which WalkPartitions evaluates expiry.
	Now int64
	// After is the key of the last partition of the previous part, or nil at the start. Token is the token of After.
	After []byte
	Token token.Token
	// Max is the maximum number of partitions in this part.
	Max int
	// Sizes requests the sizes of partitions. If Sizes is true, WalkPartitions reads up to RowsMax rows of each
	// partition.
	Sizes   bool
	RowsMax int
}

// WalkPartitions calls visit in ring order for up to p.Max logical partitions that have a live row or a live static
// cell. If p.Sizes is true, it passes the number of bytes read to visit. It updates p for the next part. more is false
// at the end of the span.
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
	in    bool // the walker is in a partition
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
		c.p.After = []byte{} // not nil, because nil means the start and a view's key may be empty
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

// sample counts up to sampleRun partitions, starting at a key. It also returns the width of the covered ring section.
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
