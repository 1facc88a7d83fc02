// SPDX-License-Identifier: Apache-2.0

package split

import (
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// These are the limits of hot key detection. Tokens identify hot keys, because keys with the same token are never
// separated.
const (
	// hotAfter is the time after which a token that causes most of a saturated partition's load becomes hot. coolAfter
	// is the time after which a hot token with a lower share stops being hot.
	hotAfter  = time.Second
	coolAfter = 10 * time.Second
	// hotShare is the share of the load at which a token becomes hot. coolShare is the minimum share at which a hot
	// token remains hot.
	hotShare  = 0.5
	coolShare = 0.4
	// saturatedShare is the fraction of its throughput at which a partition is saturated.
	saturatedShare = 0.9
	// minSiblingShare is the minimum share of the load on one side of a hot token for a split on this side. A split has
	// no benefit if the other side has no load, because each side gets only a part of the throughput.
	minSiblingShare = 0.01
)

// Saturated reports whether a partition is saturated. A partition with a throughput is saturated if its load reaches
// the throughput or if it has throttled requests. A partition without a throughput is saturated if its load exceeds
// limit. All values are in request units per second.
func Saturated(load, throughput, limit float64, throttled bool) bool {
	if throughput > 0 {
		return throttled || load >= saturatedShare*throughput
	}
	return Exceeds(load, limit)
}

// Hotspot tracks whether a single token causes most of a saturated partition's load. The zero value has no hot token.
type Hotspot struct {
	token uint64
	share float64
	// since is the time at which the token was first observed. lastHot is the last time at which the token's share was
	// high enough.
	since, lastHot time.Time
	hot            bool
}

// Observe records whether the partition is saturated now. tokens contains samples of the tokens of requests. Observe
// sorts the samples.
func (h *Hotspot) Observe(now time.Time, saturated bool, tokens []uint64) {
	token, share, most := uint64(0), 0.0, 0.0
	if saturated && len(tokens) >= minSamples {
		token, most = hottest(tokens)
		share = shareOf(tokens, h.token)
	}
	switch {
	case now.Before(h.lastHot):
		*h = Hotspot{}
	case most > hotShare && (h.since.IsZero() || token != h.token):
		*h = Hotspot{token: token, share: most, since: now, lastHot: now}
	case most > hotShare || h.hot && share > coolShare:
		h.hot = h.hot || now.Sub(h.since) >= hotAfter
		h.share, h.lastHot = share, now
	case !h.hot || now.Sub(h.lastHot) >= coolAfter:
		*h = Hotspot{}
	}
}

// Hot returns the hot token and its share of the load. ok is false if no token is hot.
func (h *Hotspot) Hot() (token uint64, share float64, ok bool) { return h.token, h.share, h.hot }

// Isolate returns the next split point that separates a hot token from other tokens with load. ok is false if no split
// is necessary. tokens contains samples as in Observe.
func Isolate(span topology.Span, hot uint64, tokens []uint64) (at topology.Position, ok bool) {
	left, right := 0, 0
	for _, p := range tokens {
		switch {
		case p < hot:
			left++
		case p > hot:
			right++
		}
	}
	least := max(int(math.Ceil(minSiblingShare*float64(len(tokens)))), 1)
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

// isolatesToken reports whether the split isolates one token in a partition.
func (o *Request) isolatesToken(p *topology.Partition) bool {
	return o.Cause == topology.ByKey && (isSingleToken(p.Span.Begin, o.At) || isSingleToken(o.At, p.Span.Limit))
}

func isSingleToken(begin, limit topology.Position) bool {
	return len(begin.Key) == 0 && len(limit.Key) == 0 && limit.Ring == begin.Ring+1
}

// hottest returns the most frequent token and its share. It sorts the tokens.
func hottest(tokens []uint64) (hot uint64, share float64) {
	slices.Sort(tokens)
	most, begin := 0, 0
	for i := range tokens {
		if tokens[i] != tokens[begin] {
			begin = i
		}
		if n := i + 1 - begin; n > most {
			most, hot = n, tokens[i]
		}
	}
	return hot, float64(most) / float64(max(len(tokens), 1))
}

func shareOf(tokens []uint64, token uint64) float64 {
	n := 0
	for _, p := range tokens {
		if p == token {
			n++
		}
	}
	return float64(n) / float64(max(len(tokens), 1))
}
