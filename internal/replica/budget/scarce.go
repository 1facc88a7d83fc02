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
	// owedMin and owedMax bound how deep into debt the claimant that has had least is let in: by what a few requests
	// cost. Otherwise one expensive request would have everybody wait as long as it costs, and whoever asks most often
	// would have the next one.
	owedMin, owedMax = 50 * time.Millisecond, time.Second
	owedRequests     = 4
	// The reserves of normal priority are from 0 to normalTo, those of low priority from there to 1. lowAt is what is
	// taken off those: low priority leaves between a quarter and three quarters of grain.
	normalTo, lowAt = 0.5, 0.25
	// enoughFor is after what time without a refusal nobody remembers any more who has had what.
	enoughFor = 10 * time.Second
)

// scarcity is who has had how much of a budget since there was too little of it.
type scarcity struct {
	shares fairshare.Shares
	// mix tells claimants apart in another way in each scarcity: those that fall together in one do not in the next.
	mix uint64
	// until is when it is forgotten.
	until atomic.Int64
	// price is what requests cost lately, in units, as the bits of a float64; each counts by what it costs.
	price atomic.Uint64
}

// waits is how long a claimant has to wait whose request would have to wait so long until the balance is positive. One
// that has rivals may owe something, the more the less it has had; one of low priority leaves something.
func (b *Budget) waits(rt *rate, wait int64, who fairshare.Principal, now Instant) int64 {
	s := b.scarce.Load()
	if s == nil {
		s = &scarcity{mix: uint64(now)*0x9e3779b97f4a7c15 | 1}
		if !b.scarce.CompareAndSwap(nil, s) {
			if s = b.scarce.Load(); s == nil {
				return wait
			}
		}
	}
	if wait > 0 {
		s.until.Store(int64(now) + int64(enoughFor))
	}
	who = s.place(who)
	reserve := s.shares.Reserve(who, time.Duration(now))
	switch {
	case !s.shares.Rivals(who):
		return wait
	case who.Low:
		return wait + int64(float64(grain)*(reserve-lowAt))
	}
	owed := owedRequests * math.Float64frombits(s.price.Load()) * rt.each
	owed = min(max(owed, float64(owedMin)), float64(owedMax))
	return wait - int64(owed*max(0, 1-reserve/normalTo))
}

// place mixes the hashes of a claimant.
func (s *scarcity) place(c fairshare.Principal) fairshare.Principal {
	c.User = uint32(uint64(c.User+1) * s.mix >> 32)
	c.Connection = uint32(uint64(c.Connection+1) * s.mix >> 32)
	return c
}

// took notes what a claimant has had.
func (s *scarcity) took(who fairshare.Principal, u ru.Units, rt *rate) {
	s.shares.Took(s.place(who), int64(u))
	price := math.Float64frombits(s.price.Load())
	weight := min(float64(u)*rt.each/float64(time.Second), 0.5) // by its part of what is given in a second
	s.price.Store(math.Float64bits(price + weight*(float64(u)-price)))
}

// Forget frees what is remembered of a time when there was too little, if that was long ago. It is to be called now and
// then.
func (b *Budget) Forget(now Instant) {
	if s := b.scarce.Load(); s != nil && int64(now) > s.until.Load() {
		b.scarce.CompareAndSwap(s, nil)
	}
}
