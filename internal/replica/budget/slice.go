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
	// window is for how long a slice is to last, by what was asked for lately.
	window = 100 * time.Millisecond
	// lentFor is after how long what is left of a slice lapses.
	lentFor = time.Second
	// askEvery is how long nobody asks for another slice while the answer to a request for one is awaited.
	askEvery = 20 * time.Millisecond
	// refuseMax bounds for how long a follower refuses by itself because its leader did: another one may lead by then.
	refuseMax = 100 * time.Millisecond
	// sliceMin is what is worth to be lent: for less every request may go to the leader.
	sliceMin = 2 * ru.Unit
)

// Slice is what a follower may spend of the balance of its leader, which has lent it, and charged it. It asks for more
// with a read that it sends to the leader because there is nothing left; for so much as is asked of it in window. So a
// follower that is asked for little has nothing, and nothing lapses. It works by debt, too: what it owes it asks for
// with the next slice, and serves nothing before. The zero value is empty. It is safe for concurrent use.
type Slice struct {
	left, until atomic.Int64
	// refused is until when the leader refuses claimants, nil as long as it has refused none.
	refused atomic.Pointer[refusals]
	// spent is what was read by way of this follower since began.
	spent atomic.Int64

	mu           sync.Mutex
	began, asked Instant
	// before is what was spent in the window before.
	before ru.Units
}

// refusals are the last ones, in places for claimants that fall together: of two of them only the last is known.
type refusals [64]atomic.Pointer[refusal]

type refusal struct {
	who   fairshare.Principal
	until Instant
}

func (r *refusals) of(c fairshare.Principal) *atomic.Pointer[refusal] {
	return &r[(c.User^c.Connection)%uint32(len(r))]
}

// Admit lets a request in that the follower serves itself: ok, and no time to wait; or says for how long its leader
// refuses the claimant. Otherwise the leader is to be asked.
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

// Spend charges what a request has cost that Admit has let in.
func (s *Slice) Spend(u ru.Units) {
	s.left.Add(-int64(u))
	s.spent.Add(int64(u))
}

// Wants is what to ask the leader for: what is owed, and what is to be lent. Both are 0 while an answer is awaited.
func (s *Slice) Wants(now Instant) (owed, wanted ru.Units) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < s.asked+Instant(askEvery) {
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

// Lend takes in what the leader lends, which includes what was owed, with the answer to a read of some price.
func (s *Slice) Lend(lent, price ru.Units, now Instant) {
	s.spent.Add(int64(price))
	if lent <= 0 {
		return
	}
	s.until.Store(int64(now) + int64(lentFor))
	s.left.Add(int64(lent))
	s.mu.Lock()
	s.asked = 0
	s.mu.Unlock()
}

// Refuse notes that the leader refuses a claimant for a time.
func (s *Slice) Refuse(who fairshare.Principal, wait time.Duration, now Instant) {
	all := s.refused.Load()
	if all == nil {
		if all = new(refusals); !s.refused.CompareAndSwap(nil, all) {
			all = s.refused.Load()
		}
	}
	all.of(who).Store(&refusal{who, now + Instant(min(wait, refuseMax))})
}

// Lend charges what a follower owes, and as much of what it wants as leaves half of what is there: whoever asks the
// leader itself must not find it empty each time. It returns what the follower gets in all, 0 if there is no bound.
func (b *Budget) Lend(owed, wanted ru.Units) ru.Units {
	rt := b.rate.Load()
	if rt == nil {
		return 0
	}
	b.spend(rt, owed)
	now := b.seen.Load()
	there := float64(now-max(b.sustained.Load(), now-int64(rt.saved))) / rt.each
	if rt.eachPeak > 0 {
		there = min(there, float64(now-max(b.peak.Load(), now-int64(grain)))/rt.eachPeak)
	}
	lent := max(min(wanted, ru.Units(there/2)), 0)
	b.spend(rt, lent)
	return owed + lent
}
