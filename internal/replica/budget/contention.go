// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// debtMin and debtMax limit the debt at which the principal with the lowest recent usage is admitted. The limit
	// corresponds to the cost of a few requests. If the budget allowed no debt, one expensive request would delay all
	// principals, and the principal with the most requests would be admitted next.
	debtMin, debtMax = 50 * time.Millisecond, time.Second
	owedRequests     = 4
	// Normal priority uses ranks from 0 to normalTo, and low priority uses ranks from normalTo to 1. lowAt is
	// subtracted from the limits of low priority. Low priority therefore leaves between a quarter and three quarters of
	// grain unused.
	normalTo, lowAt = 0.5, 0.25
	// contentionTTL is the time without a rejected request after which the budget drops the recorded shares.
	contentionTTL = 10 * time.Second
)

// contention records the units that each principal has received while the demand exceeds the budget.
type contention struct {
	shares fairshare.Shares
	// mix changes the hashes of principals in each period of contention, so that two principals do not collide in
	// consecutive periods.
	mix uint64
	// until is the time at which the budget drops the record.
	until atomic.Int64
	// price is the recent average cost of requests, weighted by cost. It is stored as the bits of a float64.
	price atomic.Uint64
}

// waitFor returns the time for which a principal must wait if the balance becomes positive after wait. If principals
// compete, a principal may go into debt. The debt limit is larger for a principal that has received less. A principal
// of low priority leaves a part of the balance unused.
func (b *Budget) waitFor(rt *rate, wait int64, who fairshare.Principal, now Instant) int64 {
	s := b.contention.Load()
	if s == nil {
		s = &contention{mix: uint64(now)*0x9e3779b97f4a7c15 | 1}
		if !b.contention.CompareAndSwap(nil, s) {
			if s = b.contention.Load(); s == nil {
				return wait
			}
		}
	}
	if wait > 0 {
		s.until.Store(int64(now) + int64(contentionTTL))
	}
	who = s.bucket(who)
	reserve := s.shares.Reserve(who, time.Duration(now))
	switch {
	case !s.shares.Rivals(who):
		return wait
	case who.Low:
		return wait + int64(float64(grain)*(reserve-lowAt))
	}
	owed := owedRequests * math.Float64frombits(s.price.Load()) * rt.each
	owed = min(max(owed, float64(debtMin)), float64(debtMax))
	return wait - int64(owed*max(0, 1-reserve/normalTo))
}

// bucket returns the principal with its hashes mixed for this period of contention.
func (s *contention) bucket(c fairshare.Principal) fairshare.Principal {
	c.User = uint32(uint64(c.User+1) * s.mix >> 32)
	c.Connection = uint32(uint64(c.Connection+1) * s.mix >> 32)
	return c
}

// charge records the units that a principal has received.
func (s *contention) charge(who fairshare.Principal, u ru.Units, rt *rate) {
	s.shares.Took(s.bucket(who), int64(u))
	price := math.Float64frombits(s.price.Load())
	weight := min(float64(u)*rt.each/float64(time.Second), 0.5) // weight by the request's share of a second
	s.price.Store(math.Float64bits(price + weight*(float64(u)-price)))
}

// Forget drops the recorded shares after the period of contention. It must be called regularly.
func (b *Budget) Forget(now Instant) {
	if s := b.contention.Load(); s != nil && int64(now) > s.until.Load() {
		b.contention.CompareAndSwap(s, nil)
	}
}
