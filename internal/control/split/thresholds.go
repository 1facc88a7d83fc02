// SPDX-License-Identifier: Apache-2.0

package split

import (
	"slices"
	"time"
)

// These are the limits of automatic splits.
const (
	// HotDuration is the time for which the load of a partition must continuously exceed the limit before the partition
	// is split.
	HotDuration = 10 * time.Second
	// minSideShare is the minimum share of the load on each side of a split. minSamples is the minimum number of
	// samples for a decision.
	minSideShare = 0.25
	minSamples   = 100
)

// SizeThreshold returns the size, in bytes, at which a partition is split. It is 80 % of the size limit.
func SizeThreshold(limit uint64) uint64 { return limit / 5 * 4 }

// LargeEnough reports whether both sides of a split have at least 5 % of the size limit. If no split point meets this
// condition, one logical partition usually contains most of the bytes, and a split has no benefit.
func LargeEnough(left, right, limit uint64) bool { return min(left, right) >= limit/20 }

// Exceeds reports whether a load exceeds a limit. Both are in request units per second. If limit is 0, the load is
// unlimited.
func Exceeds(load, limit float64) bool { return limit > 0 && load > limit }

// HotTimer measures the time for which the load of a partition has exceeded its limit. The zero value is ready for use.
type HotTimer struct {
	since time.Time
}

// Due records whether the load exceeds its limit now. It reports whether the limit has been exceeded for HotDuration.
func (h *HotTimer) Due(now time.Time, above bool) bool {
	switch {
	case !above || now.Before(h.since):
		h.since = time.Time{}
	case h.since.IsZero():
		h.since = now
	default:
		return now.Sub(h.since) >= HotDuration
	}
	return false
}

// SplitPoint returns the token that divides sampled tokens most evenly. It sorts the tokens. ok reports whether each
// side has at least a quarter of the load. ok is false if one token has more than half of the load or if the number of
// samples is too small.
func SplitPoint(tokens []uint64) (at uint64, ok bool) {
	if len(tokens) < minSamples {
		return 0, false
	}
	slices.Sort(tokens)
	best := 0
	for i := range tokens {
		if i > 0 && tokens[i] == tokens[i-1] {
			continue
		}
		if side := min(i, len(tokens)-i); side > best {
			best, at = side, tokens[i]
		}
	}
	return at, float64(best) >= minSideShare*float64(len(tokens))
}
