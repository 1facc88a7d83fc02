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

// Splits are the splits that throughputs ask for in a state, the widest partitions first. Each is where it leaves equal
// shares of the tokens once all are done: what a table holds now says little about what it is given throughput for.
// They wait for no pause; what is being changed is left for later.
func Splits(s *meta.State) (orders []split.Order) {
	for _, n := range Needs(s) {
		stretches := stretchesOf(s.Map, n.Tables)
		if len(stretches) >= n.Least {
			continue
		}
		for range n.Least - len(stretches) {
			widest := slices.MaxFunc(stretches, func(a, b *stretch) int { return cmp.Compare(a.share(), b.share()) })
			widest.parts++
		}
		slices.SortStableFunc(stretches, func(a, b *stretch) int { return cmp.Compare(b.width(), a.width()) })
		for _, x := range stretches {
			if at, ok := x.cut(); ok {
				orders = append(orders, split.Order{Table: x.partition.Table, Partition: x.partition.ID, At: at,
					Hasty: true, Cause: topology.ByThroughput})
			}
		}
	}
	return orders
}

// stretch is a part of a table's ring that is one physical partition, or will be when what is under way is done.
type stretch struct {
	// begin and last are its first token and its last.
	begin, last uint64
	// partition is nil where it cannot be split now.
	partition *topology.Partition
	// parts is how many it is to become.
	parts int
}

// stretchesOf are all of some tables.
func stretchesOf(m *topology.Snapshot, tables []uint32) (out []*stretch) {
	for _, t := range tables {
		for _, p := range m.Partitions(t) {
			x := &stretch{begin: p.Span.Begin.Ring, last: math.MaxUint64, parts: 1}
			if !p.Span.Limit.IsZero() {
				x.last = lastBefore(p.Span.Limit, x.begin)
			}
			switch {
			case p.Join != nil && p.Join.Right == p.ID:
				out[len(out)-1].last = x.last
				continue
			case p.Cut != nil:
				out = append(out, &stretch{begin: x.begin, last: lastBefore(p.Cut.At, x.begin), parts: 1})
				x.begin = p.Cut.At.Ring
			case p.Join == nil && p.AtRest():
				x.partition = p
			}
			out = append(out, x)
		}
	}
	return out
}

// lastBefore is the last whole token before a position, but none before begin: boundaries may lie inside a token.
func lastBefore(p topology.Position, begin uint64) uint64 { return max(p.Ring, begin+1) - 1 }

// width is how many tokens it has, share how many for each of its parts.
func (x *stretch) width() float64 { return float64(x.last-x.begin) + 1 }
func (x *stretch) share() float64 { return x.width() / float64(x.parts) }

// cut is where a split leaves half of the parts on each side, or one more on the right.
func (x *stretch) cut() (at topology.Position, ok bool) {
	if x.partition == nil || x.parts < 2 || x.last-x.begin < 2 {
		return at, false
	}
	hi, lo := bits.Mul64(x.last-x.begin, uint64(x.parts/2))
	part, _ := bits.Div64(hi, lo, uint64(x.parts))
	return topology.Position{Ring: x.begin + part + 1}, true
}
