// SPDX-License-Identifier: Apache-2.0

package split

import (
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// The bounds of hot keys. Places are tokens: keys of one token are one, and are never divided.
const (
	// knownAfter is how long one place has to have most of what a saturated partition takes before it is hot, and
	// coolAfter how long it has to have less before it is not any more.
	knownAfter = time.Second
	coolAfter  = 10 * time.Second
	// hotShare is the part of what a partition takes that makes a place hot, coolShare what keeps it so.
	hotShare  = 0.5
	coolShare = 0.4
	// fullShare is the part of its throughput from which on a partition is saturated.
	fullShare = 0.9
	// askedShare is the part of what a partition takes that the siblings on one side of a hot place have to have to be
	// moved away: a split takes a part of the throughput, and where nobody asks nobody gains.
	askedShare = 0.01
)

// Saturated reports whether a partition is asked for as much as it may take: a load, in request units a second, against
// what it is given, or against a limit where that is 0. One that has refused requests is.
func Saturated(load, given, limit float64, refused bool) bool {
	if given > 0 {
		return refused || load >= fullShare*given
	}
	return Above(load, limit)
}

// Hotspot follows whether one place has most of what a saturated partition takes. The zero value knows of none.
type Hotspot struct {
	place uint64
	share float64
	// since is when it was first seen, last when it was hot last.
	since, last time.Time
	known       bool
}

// Note notes at a moment whether the partition is saturated, and samples of the places at which its request units are
// spent, which it sorts.
func (h *Hotspot) Note(now time.Time, saturated bool, places []uint64) {
	place, share, most := uint64(0), 0.0, 0.0
	if saturated && len(places) >= samplesMin {
		place, most = hottest(places)
		share = shareOf(places, h.place)
	}
	switch {
	case now.Before(h.last):
		*h = Hotspot{}
	case most > hotShare && (h.since.IsZero() || place != h.place):
		*h = Hotspot{place: place, share: most, since: now, last: now}
	case most > hotShare || h.known && share > coolShare:
		h.known = h.known || now.Sub(h.since) >= knownAfter
		h.share, h.last = share, now
	case !h.known || now.Sub(h.last) >= coolAfter:
		*h = Hotspot{}
	}
}

// Hot returns the place that is hot and the part of the load that it has; ok is false if there is none.
func (h *Hotspot) Hot() (place uint64, share float64, ok bool) { return h.place, h.share, h.known }

// Isolate returns where a partition is to be cut next so that a hot place is apart from its siblings, on the sides on
// which these are asked for. ok is false if nothing is left to do. places are samples, as of Note.
func Isolate(span topology.Span, hot uint64, places []uint64) (at topology.Position, ok bool) {
	left, right := 0, 0
	for _, p := range places {
		switch {
		case p < hot:
			left++
		case p > hot:
			right++
		}
	}
	least := max(int(math.Ceil(askedShare*float64(len(places)))), 1)
	if after := (topology.Position{Ring: hot + 1}); right >= least &&
		(span.Limit.IsZero() || after.Compare(span.Limit) < 0) {
		return after, true
	}
	if at = (topology.Position{Ring: hot}); left >= least && at.Compare(span.Begin) > 0 &&
		(span.Limit.IsZero() || at.Compare(span.Limit) < 0) {
		return at, true
	}
	return topology.Position{}, false
}

// isolates reports whether a split leaves one token with a partition of its own.
func (o *Order) isolates(p *topology.Partition) bool {
	return o.Cause == topology.ByKey && (oneToken(p.Span.Begin, o.At) || oneToken(o.At, p.Span.Limit))
}

func oneToken(begin, limit topology.Position) bool {
	return len(begin.Key) == 0 && len(limit.Key) == 0 && limit.Ring == begin.Ring+1
}

// hottest is the place that most samples are of, which it sorts, and the part of them that it has.
func hottest(places []uint64) (hot uint64, share float64) {
	slices.Sort(places)
	most, begin := 0, 0
	for i := range places {
		if places[i] != places[begin] {
			begin = i
		}
		if n := i + 1 - begin; n > most {
			most, hot = n, places[i]
		}
	}
	return hot, float64(most) / float64(max(len(places), 1))
}

func shareOf(places []uint64, place uint64) float64 {
	n := 0
	for _, p := range places {
		if p == place {
			n++
		}
	}
	return float64(n) / float64(max(len(places), 1))
}
