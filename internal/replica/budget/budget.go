// SPDX-License-Identifier: Apache-2.0

// Package budget maintains the balance of request units of one physical partition. Callers call Admit before a request
// runs and Charge afterward.
//
// A budget allows debt. It admits a request while the balance is positive, and charges the request when the cost is
// known. The balance can therefore become negative, but a partition never exceeds its throughput over time. If the
// demand exceeds the throughput, package fairshare divides the throughput evenly among users and their connections.
// Requests of low priority come last. A user that has spent little may be admitted at a negative balance, down to a
// limit.
package budget

import (
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// MaxPerSecond is the maximum throughput of a physical partition, in request units per second.
	MaxPerSecond = 10_000
	// burstMax is the rate, in request units per second, at which a partition with a lower rate may spend the units
	// that it has saved during burstFor.
	burstMax = 3_000
	burstFor = 300 * time.Second
	// beginFor is the maximum balance of a new leader, as a time of refilling. The new leader does not know how much
	// the previous leader has spent.
	beginFor = time.Second / 2
	// grain is the maximum saving of a budget that does not allow bursts. With this saving, a client that sends
	// requests in groups can use the full throughput.
	grain = 200 * time.Millisecond
)

// Instant is a reading of a monotonic clock, in nanoseconds. All calls on a Budget must use the same clock.
type Instant int64

// Budget limits the request units that a partition may spend. The zero value is unlimited. It is safe for concurrent
// use.
//
// A balance is stored as the instant at which the balance was or will be zero. A charge moves this instant forward by
// the time in which the charged units are refilled. The instant never precedes the current time by more than the
// maximum saving. A change of the rate does not change the instant.
type Budget struct {
	rate atomic.Pointer[rate]
	// sustained is the balance at the partition's own rate. peak is the balance at burstMax, which limits the rate of
	// spending savings.
	sustained, peak atomic.Int64
	// lastAdmitted is the time at which the last request was admitted. Charge uses this time, so that a request reads
	// the clock only once.
	lastAdmitted atomic.Int64
	// term is the term of the leader that owns the balance.
	term atomic.Uint64
	// throttled is the number of rejected requests.
	throttled atomic.Uint64
	// contention records the units that each principal has recently received. It is nil while the budget meets the
	// demand.
	contention atomic.Pointer[contention]
	loan       loan
}

// rate is the throughput of a partition.
type rate struct {
	perSecond int64
	// each is the time in which one of ru.Units is refilled. saved is the maximum saving. eachPeak is 0 if the budget
	// does not allow bursts.
	each, eachPeak float64
	saved          time.Duration
}

func rateOf(perSecond int64) *rate {
	if perSecond <= 0 {
		return nil
	}
	each := func(perSecond int64) float64 { return float64(time.Second) / float64(perSecond) / float64(ru.Unit) }
	r := &rate{perSecond: min(perSecond, MaxPerSecond), saved: grain}
	r.each = each(r.perSecond)
	if r.perSecond < burstMax {
		r.eachPeak, r.saved = each(burstMax), burstFor
	}
	return r
}

// Bounded reports whether the budget is limited.
func (b *Budget) Bounded() bool { return b.rate.Load() != nil }

// PerSecond returns the rate in request units per second, or 0 if the budget is unlimited.
func (b *Budget) PerSecond() int64 {
	if rt := b.rate.Load(); rt != nil {
		return rt.perSecond
	}
	return 0
}

// Refuse counts a request that another component has rejected on behalf of this budget.
func (b *Budget) Refuse() { b.throttled.Add(1) }

// Throttled returns the number of rejected requests.
func (b *Budget) Throttled() uint64 { return b.throttled.Load() }

// Set sets the rate in request units per second. The maximum is MaxPerSecond. If the rate is 0, the budget is
// unlimited.
func (b *Budget) Set(perSecond int64, now Instant) {
	before := b.rate.Load()
	next := rateOf(perSecond)
	if before == nil && next != nil {
		b.start(now)
	}
	b.rate.Store(next)
}

// start sets the balance of a new leader. It does not change a negative balance.
func (b *Budget) start(now Instant) {
	if b.lastAdmitted.Load() == 0 { // no request has been admitted yet
		b.sustained.Store(int64(now) - int64(beginFor))
		b.peak.Store(int64(now) - int64(grain))
	}
	b.sustained.Store(max(b.sustained.Load(), int64(now)-int64(beginFor)))
	b.peak.Store(max(b.peak.Load(), int64(now)-int64(grain)))
	b.lastAdmitted.Store(int64(now))
}

// startTerm resets the balance if term is a new term.
func (b *Budget) startTerm(term uint64, now Instant) {
	if old := b.term.Load(); old != term && b.term.CompareAndSwap(old, term) {
		b.start(now)
	}
}

// Inherit divides the rate and the balance of parent equally between both budgets. Both budgets store the same instant,
// because a balance is stored as an instant. The division applies until the throughput of the table is divided again.
func (b *Budget) Inherit(parent *Budget) {
	if rt := parent.rate.Load(); rt != nil {
		half := rateOf(max(rt.perSecond/2, 1))
		parent.rate.Store(half)
		b.rate.Store(half)
	}
	b.sustained.Store(parent.sustained.Load())
	b.peak.Store(parent.peak.Load())
	b.lastAdmitted.Store(parent.lastAdmitted.Load())
}

// Absorb sets the balance to the lower of both balances. It is called when another partition is merged into this
// partition.
func (b *Budget) Absorb(other *Budget) {
	b.sustained.Store(max(b.sustained.Load(), other.sustained.Load()))
	b.peak.Store(max(b.peak.Load(), other.peak.Load()))
	b.lastAdmitted.Store(max(b.lastAdmitted.Load(), other.lastAdmitted.Load()))
}

// Admit returns 0 if the request is admitted, and the wait time otherwise. term is the leader's term and must be
// greater than 0. At the start of a new term, the balance is limited to half a second of throughput.
func (b *Budget) Admit(term uint64, who fairshare.Principal, now Instant) time.Duration {
	rt := b.rate.Load()
	if rt == nil {
		return 0
	}
	b.startTerm(term, now)
	wait := b.sustained.Load() - int64(now)
	if rt.eachPeak > 0 {
		wait = max(wait, b.peak.Load()-int64(now))
	}
	if wait > 0 || who.Low && b.contention.Load() != nil {
		if wait = b.waitFor(rt, wait, who, now); wait > 0 {
			b.throttled.Add(1)
			return time.Duration(wait)
		}
	}
	b.lastAdmitted.Store(int64(now))
	return 0
}

// Charge deducts the units that a principal has used.
func (b *Budget) Charge(who fairshare.Principal, u ru.Units) {
	rt := b.rate.Load()
	if rt == nil || u == 0 {
		return
	}
	if s := b.contention.Load(); s != nil {
		s.charge(who, u, rt)
	}
	b.spend(rt, u)
}

// spend deducts units from the balance.
func (b *Budget) spend(rt *rate, u ru.Units) {
	now := b.lastAdmitted.Load()
	moveForward(&b.sustained, now-int64(rt.saved), float64(u)*rt.each)
	if rt.eachPeak > 0 {
		moveForward(&b.peak, now-int64(grain), float64(u)*rt.eachPeak)
	}
}

func moveForward(zero *atomic.Int64, least int64, by float64) {
	for {
		old := zero.Load()
		if zero.CompareAndSwap(old, max(old, least)+int64(by)) {
			return
		}
	}
}
