// SPDX-License-Identifier: Apache-2.0

package split

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDivide checks for any samples that each side of a divided load has at least a quarter of the load. If no such
// division exists, one token has more than half of the load and is returned. With too few samples, no token is
// returned.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) uint64 {
			if rapid.Bool().Draw(t, "hot") {
				return rapid.Uint64Range(7, 9).Draw(t, "one of few")
			}
			return rapid.Uint64().Draw(t, "any")
		}), 0, 600).Draw(t, "places")
		if n := rapid.IntRange(0, 600).Draw(t, "of one"); rapid.Bool().Draw(t, "one") {
			for range n {
				places = append(places, 1<<60)
			}
		}
		at, ok := SplitPoint(places)
		hot, share := hottest(places)
		var left, right int
		for _, p := range places {
			if p < at {
				left++
			} else {
				right++
			}
		}
		switch {
		case len(places) < minSamples:
			if ok {
				t.Fatalf("%d samples are enough for %v", len(places), at)
			}
		case ok:
			if 4*min(left, right) < len(places) {
				t.Fatalf("%d on the left and %d on the right of %d", left, right, at)
			}
		case share <= hotShare || share != shareOf(places, hot):
			t.Fatalf("the load is not divided, and the hot place %d has %v of %d", hot, share, len(places))
		}
	})
}

// TestHeat checks that a partition is hot only after its load has exceeded the limit for ten seconds without
// interruption.
func TestHeat(t *testing.T) {
	const limit, high = 1000.0, 5000.0
	now := time.UnixMilli(1e12)
	var h HotTimer
	look := func(after time.Duration, load float64) bool {
		now = now.Add(after)
		return h.Due(now, Exceeds(load, limit))
	}
	for i := range 10 {
		if look(time.Second, high) {
			t.Fatalf("hot after %d s", i)
		}
	}
	for i := range 2 {
		if !look(time.Second, high) {
			t.Errorf("not hot after %d seconds", 10+i)
		}
	}
	for _, pause := range []float64{0, limit} {
		if look(time.Second, pause) || look(5*time.Second, high) || look(9*time.Second, high) {
			t.Errorf("hot although it paused at %v", pause)
		}
	}
	if look(-time.Hour, high) || look(9*time.Second, high) {
		t.Error("hot by a clock that was set back")
	}
	if Exceeds(high, 0) {
		t.Error("above a limit that there is not")
	}
}

// TestWorthwhile checks that a split is rejected if one half would have less than a twentieth of the size limit.
func TestWorthwhile(t *testing.T) {
	if !LargeEnough(5, 60, 100) || LargeEnough(4, 80, 100) || LargeEnough(80, 4, 100) || SizeThreshold(100) != 80 {
		t.Error("the bounds are not 5 % and 80 %")
	}
}
