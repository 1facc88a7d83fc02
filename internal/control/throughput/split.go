// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Splits returns the splits that the throughputs in a state require, starting with the widest partitions. The splits
// divide the tokens evenly, because the current data of a table does not indicate its future load. The requests skip
// the cooldown. Changing partitions are split later.
func Splits(s *meta.State) (requests []split.Request) {
	for _, n := range Requirements(s) {
		segments := segmentsOf(s.Topology, n.Tables)
		if len(segments) >= n.MinPartitions {
			continue
		}
		for range n.MinPartitions - len(segments) {
			widest := slices.MaxFunc(segments, func(a, b *segment) int { return cmp.Compare(a.share(), b.share()) })
			widest.parts++
		}
		slices.SortStableFunc(segments, func(a, b *segment) int { return cmp.Compare(b.width(), a.width()) })
		for _, x := range segments {
			if at, ok := x.splitPoint(); ok {
				requests = append(requests, split.Request{Table: x.partition.Table, Partition: x.partition.ID, At: at,
					SkipCooldown: true, Cause: topology.ByThroughput})
			}
		}
	}
	return requests
}

// segment is a part of a table's ring that is or will be one physical partition after all pending changes.
type segment struct {
	// begin and last are the first and the last token.
	begin, last uint64
	// partition is the physical partition, or nil if the partition cannot be split now.
	partition *topology.Partition
	// parts is the number of partitions into which the segment will be split.
	parts int
}

// segmentsOf returns all segments of the tables.
func segmentsOf(m *topology.Snapshot, tables []uint32) (out []*segment) {
	for _, t := range tables {
		for _, p := range m.Partitions(t) {
			x := &segment{begin: p.Span.Begin.Ring, last: math.MaxUint64, parts: 1}
			if !p.Span.Limit.IsZero() {
				x.last = lastBefore(p.Span.Limit, x.begin)
			}
			switch {
			case p.Merge != nil && p.Merge.Right == p.ID:
				out[len(out)-1].last = x.last
				continue
			case p.Split != nil:
				out = append(out, &segment{begin: x.begin, last: lastBefore(p.Split.At, x.begin), parts: 1})
				x.begin = p.Split.At.Ring
			case p.Merge == nil && p.AtRest():
				x.partition = p
			}
			out = append(out, x)
		}
	}
	return out
}

// lastBefore returns the last whole token before a position, or begin if begin is greater than this token. A position
// may be inside a token.
func lastBefore(p topology.Position, begin uint64) uint64 { return max(p.Ring, begin+1) - 1 }

// width returns the number of tokens in the segment.
func (x *segment) width() float64 { return float64(x.last-x.begin) + 1 }
func (x *segment) share() float64 { return x.width() / float64(x.parts) }

// splitPoint returns the position that divides the parts of the segment in half. If the number of parts is odd, the
// left side has one part less.
func (x *segment) splitPoint() (at topology.Position, ok bool) {
	if x.partition == nil || x.parts < 2 || x.last-x.begin < 2 {
		return at, false
	}
	hi, lo := bits.Mul64(x.last-x.begin, uint64(x.parts/2))
	part, _ := bits.Div64(hi, lo, uint64(x.parts))
	return topology.Position{Ring: x.begin + part + 1}, true
}
