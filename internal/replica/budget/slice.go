// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// window is the time for which a slice should suffice, according to the recent demand.
	window = 100 * time.Millisecond
	// sliceTTL is the time after which the unused rest of a slice expires.
	sliceTTL = time.Second
	// requestEvery is the minimum time between two requests for a slice while a response is pending.
	requestEvery = 20 * time.Millisecond
	// refuseMax is the maximum time for which a follower rejects requests after a rejection by its leader.
	refuseMax = 100 * time.Millisecond
	// sliceMin is the minimum size of a slice. If the slice would be smaller, all requests are sent to the leader.
	sliceMin = 2 * ru.Unit
)

// Slice is the part of the leader's balance that a follower may spend. The leader charges the slice to its own balance.
// When a slice is used up, the next read that the follower sends to the leader requests another slice. The demand
// within window determines the size of the next slice. A follower with little demand therefore has no slice. A slice
// also allows debt. The follower requests its debt with the next slice, and serves no requests until it receives this
// slice. The zero value is empty. Slice is safe for concurrent use.
type Slice struct {
	left, until atomic.Int64
	// refused holds the times until which the leader rejects principals. It is nil if the leader has rejected no
	// principal.
	refused atomic.Pointer[refusals]
	// spent is the cost of all reads through this follower since began.
	spent atomic.Int64

	mu           sync.Mutex
	began, asked Instant
	// before is the number of units spent in the previous window.
	before ru.Units
}

// refusals holds the last rejections, indexed by a hash of the principal. If the hashes of two principals collide,
// refusals contains only the last rejection.
type refusals [64]atomic.Pointer[refusal]

type refusal struct {
	who   fairshare.Principal
	until Instant
}

func (r *refusals) of(c fairshare.Principal) *atomic.Pointer[refusal] {
	return &r[(c.User^c.Connection)%uint32(len(r))]
}

// Admit reports whether the follower may serve a request. If ok is false, wait is the time for which the leader rejects
// the principal, or 0 if the caller must send the request to the leader.
func (s *Slice) Admit(who fairshare.Principal, now Instant) (wait time.Duration, ok bool) {
	if s.left.Load() > 0 && int64(now) < s.until.Load() {
		return 0, true
	}
	if all := s.refused.Load(); all != nil {
		if r := all.of(who).Load(); r != nil && r.who == who && r.until > now {
			return time.Duration(r.until - now), true
		}
	}
	return 0, false
}

// Spend charges the cost of a request that Admit has admitted.
func (s *Slice) Spend(u ru.Units) {
	s.left.Add(-int64(u))
	s.spent.Add(int64(u))
}

// Request returns the debt and the number of units to request from the leader. Both are 0 while a response is pending.
func (s *Slice) Request(now Instant) (owed, wanted ru.Units) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.asked+Instant(requestEvery) {
		return 0, 0
	}
	if passed := now - s.began; passed >= Instant(window) {
		s.before = ru.Units(float64(s.spent.Swap(0)) * float64(window) / float64(passed))
		s.began = now
	}
	left := s.left.Load()
	if left > 0 && int64(now) >= s.until.Load() && s.left.CompareAndSwap(left, 0) {
		left = 0
	}
	if wanted = max(s.before, ru.Units(s.spent.Load())) - ru.Units(max(left, 0)); wanted < sliceMin {
		wanted = 0
	}
	if owed = ru.Units(max(-left, 0)); owed+wanted > 0 {
		s.asked = now
	}
	return owed, wanted
}

// Lend adds the units that the leader has lent with the response to a read. The units include the debt of the follower.
// price is the price of the read.
func (s *Slice) Lend(lent, price ru.Units, now Instant) {
	s.spent.Add(int64(price))
	if lent <= 0 {
		return
	}
	s.until.Store(int64(now) + int64(sliceTTL))
	s.left.Add(int64(lent))
	s.mu.Lock()
	s.asked = 0
	s.mu.Unlock()
}

// Refuse records that the leader rejects a principal for the given time.
func (s *Slice) Refuse(who fairshare.Principal, wait time.Duration, now Instant) {
	all := s.refused.Load()
	if all == nil {
		if all = new(refusals); !s.refused.CompareAndSwap(nil, all) {
			all = s.refused.Load()
		}
	}
	all.of(who).Store(&refusal{who, now + Instant(min(wait, refuseMax))})
}

// Lend charges the debt of a follower and the wanted units. It leaves half of the balance, so that the leader can still
// admit requests. It returns the total number of granted units, or 0 if the budget is unlimited.
func (b *Budget) Lend(owed, wanted ru.Units) ru.Units {
	rt := b.rate.Load()
	if rt == nil {
		return 0
	}
	b.spend(rt, owed)
	now := b.lastAdmitted.Load()
	there := float64(now-max(b.sustained.Load(), now-int64(rt.saved))) / rt.each
	if rt.eachPeak > 0 {
		there = min(there, float64(now-max(b.peak.Load(), now-int64(grain)))/rt.eachPeak)
	}
	lent := max(min(wanted, ru.Units(there/2)), 0)
	b.spend(rt, lent)
	return owed + lent
}
