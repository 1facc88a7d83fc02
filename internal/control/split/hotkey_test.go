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

// asked draws samples of which a part is of one place.
func asked(t *rapid.T, place uint64, part float64, n int) (places []uint64) {
	for range int(part * float64(n)) {
		places = append(places, place)
	}
	for len(places) < n {
		places = append(places, rapid.Uint64().Draw(t, "sibling"))
	}
	return places
}

// TestHotspot checks that whatever is asked for in whatever seconds, a place is hot only if it had more than half of
// what a saturated partition took for two looks in a row, is so by the second at the latest, and stays so until it has
// had little, or another has had most, or nothing was refused for ten seconds.
func TestHotspot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Hotspot
		now := time.UnixMilli(1e12)
		var row, cool int // looks in a row at which a place had most, or did not keep what it had
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

// TestSaturated proves what saturates a partition: its throughput, or the limit of those that have none.
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

// TestIsolate checks that whatever is asked for, orders by Isolate are carried out without a pause between them, end
// after two, leave the hot place alone where both sides are asked for, never part two keys of one token, and cut off no
// side that nobody asks for. What was changed is left alone by any other order.
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
					return // the other side was asked for by few at first, and has to wait
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
			t.Fatalf("%d and %d siblings are still there", left, right)
		}
		if sides := min(wasLeft, 1) + min(wasRight, 1); cuts > sides {
			t.Fatalf("%d cuts, %d and %d siblings were asked for", cuts, wasLeft, wasRight)
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
