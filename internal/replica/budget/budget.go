// SPDX-License-Identifier: Apache-2.0

// Package budget keeps the balance of request units of one physical partition. It knows prices and instants and nothing
// else: callers pass the time, ask before a request runs, and charge it afterwards.
//
// It works by debt: a request is let in while the balance is positive, and charged when it is known what it has cost,
// so the balance may become negative. Over time no more is given than is due. Where more is asked for than that, it is
// divided as package fairshare says, evenly among users and their connections, and low priority last: who has had
// little may be let in at a negative balance, down to a bound.
package budget

import (
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// Most is the most that a physical partition may take, in request units a second.
	Most = 10_000
	// burstMax is up to which a partition of less may take, in request units a second, what it has not used in
	// burstFor.
	burstMax = 3_000
	burstFor = 300 * time.Second
	// beginFor is the part of it that a new leader begins with at most: what the one before has spent it does not know.
	beginFor = time.Second / 2
	// grain is what a budget without a burst may save: whoever asks in bunches gets what is due to him.
	grain = 200 * time.Millisecond
)

// Instant is a point in time in nanoseconds, on a clock that never goes back. All calls of a Budget use the same one.
type Instant int64

// Budget bounds what a partition may take. The zero value has no bound. It is safe for concurrent use.
//
// A balance is kept as the instant at which it was or will be zero. To charge is to move that by the time in which what
// is charged comes back, and never to begin earlier than what may be saved. So time refills it, nobody has to, and a
// change of the rate keeps what is saved as time.
type Budget struct {
	rate atomic.Pointer[rate]
	// sustained is the balance at the partition's own rate; peak that at burstMax, which bounds how fast savings are
	// spent.
	sustained, peak atomic.Int64
	// seen is when a request was let in last: what it costs is charged as of then, so that the clock is read once.
	seen atomic.Int64
	// term is that of the leader whose balance it is.
	term atomic.Uint64
	// throttled counts the requests that were refused.
	throttled atomic.Uint64
	// scarce is who has had how much lately, nil as long as there is enough.
	scarce atomic.Pointer[scarcity]
	loan   loan
}

// rate is what a partition may take.
type rate struct {
	perSecond int64
	// each is the time in which a ru.Units comes back, saved what may be saved; eachPeak is 0 where there is no burst.
	each, eachPeak float64
	saved          time.Duration
}

func rateOf(perSecond int64) *rate {
	if perSecond <= 0 {
		return nil
	}
	each := func(perSecond int64) float64 { return float64(time.Second) / float64(perSecond) / float64(ru.Unit) }
	r := &rate{perSecond: min(perSecond, Most), saved: grain}
	r.each = each(r.perSecond)
	if r.perSecond < burstMax {
		r.eachPeak, r.saved = each(burstMax), burstFor
	}
	return r
}

// Bounded reports whether there is a bound at all.
func (b *Budget) Bounded() bool { return b.rate.Load() != nil }

// PerSecond is the rate in request units a second, 0 if there is no bound.
func (b *Budget) PerSecond() int64 {
	if rt := b.rate.Load(); rt != nil {
		return rt.perSecond
	}
	return 0
}

// Refuse counts a request that somebody else has refused for this balance.
func (b *Budget) Refuse() { b.throttled.Add(1) }

// Throttled counts the requests that were refused.
func (b *Budget) Throttled() uint64 { return b.throttled.Load() }

// Set changes the rate, in request units a second, of which Most count; 0 is none.
func (b *Budget) Set(perSecond int64, now Instant) {
	before := b.rate.Load()
	next := rateOf(perSecond)
	if before == nil && next != nil {
		b.begin(now)
	}
	b.rate.Store(next)
}

// begin gives it what a new leader begins with: debts stay.
func (b *Budget) begin(now Instant) {
	if b.seen.Load() == 0 { // nothing was spent since the clock began
		b.sustained.Store(int64(now) - int64(beginFor))
		b.peak.Store(int64(now) - int64(grain))
	}
	b.sustained.Store(max(b.sustained.Load(), int64(now)-int64(beginFor)))
	b.peak.Store(max(b.peak.Load(), int64(now)-int64(grain)))
	b.seen.Store(int64(now))
}

// renew has it begin anew if there is a new leader.
func (b *Budget) renew(term uint64, now Instant) {
	if old := b.term.Load(); old != term && b.term.CompareAndSwap(old, term) {
		b.begin(now)
	}
}

// Inherit takes half of the rate of a parent, which keeps the other half, and half of its balance, which is the same
// time. So both may take as much as the whole did, until somebody divides what the table may take anew.
func (b *Budget) Inherit(parent *Budget) {
	if rt := parent.rate.Load(); rt != nil {
		half := rateOf(max(rt.perSecond/2, 1))
		parent.rate.Store(half)
		b.rate.Store(half)
	}
	b.sustained.Store(parent.sustained.Load())
	b.peak.Store(parent.peak.Load())
	b.seen.Store(parent.seen.Load())
}

// Absorb takes the worse balance of both, when another partition becomes part of this one.
func (b *Budget) Absorb(other *Budget) {
	b.sustained.Store(max(b.sustained.Load(), other.sustained.Load()))
	b.peak.Store(max(b.peak.Load(), other.peak.Load()))
	b.seen.Store(max(b.seen.Load(), other.seen.Load()))
}

// Admit lets a request in, and returns 0, or returns how long it has to wait. The term is that of the leader, which is
// above 0: in a new one it has the balance of half a second at most.
func (b *Budget) Admit(term uint64, who fairshare.Principal, now Instant) time.Duration {
	rt := b.rate.Load()
	if rt == nil {
		return 0
	}
	b.renew(term, now)
	wait := b.sustained.Load() - int64(now)
	if rt.eachPeak > 0 {
		wait = max(wait, b.peak.Load()-int64(now))
	}
	if wait > 0 || who.Low && b.scarce.Load() != nil {
		if wait = b.waits(rt, wait, who, now); wait > 0 {
			b.throttled.Add(1)
			return time.Duration(wait)
		}
	}
	b.seen.Store(int64(now))
	return 0
}

// Charge takes from the balance what a claimant has had, as of the request that was let in last.
func (b *Budget) Charge(who fairshare.Principal, u ru.Units) {
	rt := b.rate.Load()
	if rt == nil || u == 0 {
		return
	}
	if s := b.scarce.Load(); s != nil {
		s.took(who, u, rt)
	}
	b.spend(rt, u)
}

// spend takes from the balance.
func (b *Budget) spend(rt *rate, u ru.Units) {
	now := b.seen.Load()
	moveOn(&b.sustained, now-int64(rt.saved), float64(u)*rt.each)
	if rt.eachPeak > 0 {
		moveOn(&b.peak, now-int64(grain), float64(u)*rt.eachPeak)
	}
}

func moveOn(zero *atomic.Int64, least int64, by float64) {
	for {
		old := zero.Load()
		if zero.CompareAndSwap(old, max(old, least)+int64(by)) {
			return
		}
	}
}
