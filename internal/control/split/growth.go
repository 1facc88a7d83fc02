// SPDX-License-Identifier: Apache-2.0

package split

import (
	"slices"
	"time"
)

// The bounds of splits that happen by themselves.
const (
	// HotFor is how long the load of a partition has to be above its limits, without a pause, before it is split.
	HotFor = 10 * time.Second
	// sideMin is the share of the load that has to be on each side of a split, and samplesMin the samples without which
	// nobody can tell.
	sideMin    = 0.25
	samplesMin = 100
)

// Soft is how many bytes a partition has when it is split: 80 % of its cap.
func Soft(most uint64) uint64 { return most / 5 * 4 }

// Worthwhile reports whether both halves of a split have enough bytes for a partition of their own: 5 % of the cap.
// What cannot be divided better is mostly one logical partition, and would be split off again and again.
func Worthwhile(left, right, most uint64) bool { return min(left, right) >= most/20 }

// Above reports whether a load exceeds a limit, both in request units a second. A limit of 0 is none.
func Above(load, limit float64) bool { return limit > 0 && load > limit }

// Heat follows how long a partition has been hot. The zero value is that of a cold one.
type Heat struct {
	since time.Time
}

// Due notes whether the load is above its limits at a moment, and reports whether it has been for HotFor.
func (h *Heat) Due(now time.Time, above bool) bool {
	switch {
	case !above || now.Before(h.since):
		h.since = time.Time{}
	case h.since.IsZero():
		h.since = now
	default:
		return now.Sub(h.since) >= HotFor
	}
	return false
}

// Divide finds where a load is divided best, from places on the ring that were asked for, which it sorts. ok says that
// at least a quarter of it is on both sides: at is where the right one begins. Where that cannot be one place has more
// than half of it, or there are too few places to tell.
func Divide(places []uint64) (at uint64, ok bool) {
	if len(places) < samplesMin {
		return 0, false
	}
	slices.Sort(places)
	best := 0
	for i := range places {
		if i > 0 && places[i] == places[i-1] {
			continue
		}
		if side := min(i, len(places)-i); side > best {
			best, at = side, places[i]
		}
	}
	return at, float64(best) >= sideMin*float64(len(places))
}
