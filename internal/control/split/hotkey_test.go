// SPDX-License-Identifier: Apache-2.0

package split

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// asked returns n samples. The given fraction of the samples has the same token.
func asked(t *rapid.T, place uint64, part float64, n int) (places []uint64) {
	for range int(part * float64(n)) {
		places = append(places, place)
	}
	for len(places) < n {
		places = append(places, rapid.Uint64().Draw(t, "sibling"))
	}
	return places
}

// TestHotspot checks for any sequence of requests when a token is hot. A token becomes hot when it has had more than
// half of the load of a saturated partition in two consecutive observations. The token stays hot until, for ten
// seconds, its share has been low, another token has had the largest share, or the partition has not been saturated.
func TestHotspot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Hotspot
		now := time.UnixMilli(1e12)
		var row, cool int // observations in a row in which a token had, or had lost, the largest share
		var of, hot uint64
		for range rapid.IntRange(1, 120).Draw(t, "seconds") {
			now = now.Add(time.Second)
			place := rapid.Uint64Range(1, 2).Draw(t, "place")
			part := rapid.SampledFrom([]float64{0, 0.3, 0.45, 0.6, 0.9, 0.9, 1}).Draw(t, "part")
			full := rapid.IntRange(0, 9).Draw(t, "saturated") > 0
			places := asked(t, place, part, rapid.SampledFrom([]int{0, 99, 100, 120}).Draw(t, "samples"))
			top, most := hottest(places)
			strong := full && len(places) >= minSamples && most > hotShare
			switch {
			case strong && top == of:
				row++
			case strong:
				of, row, hot = top, 1, 0
			case hot == 0:
				of, row = 0, 0
			}
			if keeps := full && len(places) >= minSamples && shareOf(places, of) > coolShare; strong || keeps {
				cool = 0
			} else if cool++; cool >= 10 && hot != 0 {
				hot, of, row = 0, 0, 0
			}
			if row >= 2 {
				hot = of
			}
			h.Observe(now, full, places)
			got, share, known := h.Hot()
			if known != (hot != 0) || known && got != hot || known && share < coolShare {
				t.Fatalf("hot is %d (%v, %.2f), want %d after %d looks", got, known, share, hot, row)
			}
		}
	})
}

// TestSaturated checks that a partition is saturated at its throughput or, if it has no throughput, at the load limit.
func TestSaturated(t *testing.T) {
	for _, c := range []struct {
		load, given, limit float64
		refused, want      bool
	}{
		{9000, 0, 10_000, false, false}, {11_000, 0, 10_000, false, true}, {11_000, 0, 0, false, false},
		{300, 400, 10_000, false, false}, {370, 400, 10_000, false, true}, {10, 400, 10_000, true, true},
		{9000, 400, 0, false, true},
	} {
		if Saturated(c.load, c.given, c.limit, c.refused) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestIsolate checks the requests that Isolate returns, for any samples. The requested splits have no cooldown between
// them and end after two splits. If both sides have load, the hot token ends up alone. Two keys of one token are never
// separated, and a side without load is not split off. No other request may change the isolated partition.
func TestIsolate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := topology.New().WithLevel(MinFeatureLevel).AddTable(table, rapid.IntRange(1, 5).Draw(t, "partitions"),
			[]topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, now := meta.Empty().WithTopology(m), time.UnixMilli(1e12)
		hot := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1})).
			Draw(t, "hot")
		places := asked(t, hot, rapid.Float64Range(0.5, 1).Draw(t, "part"), 200)
		if rapid.Bool().Draw(t, "one side") {
			places = slices.DeleteFunc(places, func(p uint64) bool { return p > hot })
		}
		holder := func() *topology.Partition {
			ps := s.Topology.Partitions(table)
			i, _ := slices.BinarySearchFunc(ps, hot, func(p *topology.Partition, hot uint64) int {
				if p.Span.Begin.Ring > hot {
					return 1
				}
				return -1
			})
			return ps[i-1]
		}
		mine := func(p *topology.Partition) (out []uint64, left, right int) {
			for _, x := range places {
				if x < p.Span.Begin.Ring || !p.Span.Limit.IsZero() && x >= p.Span.Limit.Ring {
					continue
				}
				if out = append(out, x); x < hot {
					left++
				} else if x > hot {
					right++
				}
			}
			return out, left, right
		}
		_, wasLeft, wasRight := mine(holder())
		cuts := 0
		for {
			p := holder()
			own, _, _ := mine(p)
			at, ok := Isolate(p.Span, hot, own)
			if !ok {
				break
			}
			o := Request{Table: table, Partition: p.ID, At: at, Cause: topology.ByKey}
			next, err := o.Apply(s, now)
			if err != nil {
				if _, left, right := mine(p); cuts > 0 && (left == 0 || right == 0) {
					return // the other side had little load at first, so its split must wait
				}
				t.Fatalf("cut %d at %v: %v", cuts, at, err)
			}
			if cuts++; cuts > 2 || len(at.Key) > 0 {
				t.Fatalf("cut %d at %v", cuts, at)
			}
			ended, err := next.Topology.EndSplit(p.ID, now)
			if err != nil {
				t.Fatal(err)
			}
			s = s.WithTopology(ended)
			if err := s.Topology.Validate(); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Second)
		}
		p := holder()
		_, left, right := mine(p)
		if all := len(places); left > all/50+1 || right > all/50+1 {
			t.Fatalf("%d and %d siblings remain", left, right)
		}
		if sides := min(wasLeft, 1) + min(wasRight, 1); cuts > sides {
			t.Fatalf("%d splits, but %d and %d sampled siblings on the two sides", cuts, wasLeft, wasRight)
		}
		for _, p := range s.Topology.Partitions(table) {
			if p.Since == 0 {
				continue
			}
			middle := topology.Position{Ring: p.Span.Begin.Ring + 2}
			for _, cause := range []topology.Cause{topology.ByLoad, topology.BySize, topology.ByKey} {
				o := Request{Table: table, Partition: p.ID, At: middle, Cause: cause}
				if _, err := o.Apply(s, now); err == nil && !o.isolatesToken(p) {
					t.Fatalf("partition %d is split (%v) after it had changed", p.ID, cause)
				}
			}
		}
	})
}
