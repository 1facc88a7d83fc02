// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// loan is what is known of lending between the partitions that share a throughput. A lender is charged before the
// borrower has anything, so together they never take more than without it.
type loan struct {
	// lent is as of when the balance has lent, asked as of when it has borrowed what it may.
	lent, asked atomic.Int64
	// refused is how many requests had been refused when it asked last.
	refused atomic.Uint64
	// lentAll and borrowedAll are the units of all time.
	lentAll, borrowedAll atomic.Int64
}

// Short is what the balance of a leader would borrow of others, 0 if it has refused nothing since it was asked last: as
// much as a partition may take at most, Most, beside what it is given itself. One goroutine at a time calls it.
func (b *Budget) Short(now Instant) ru.Units {
	rt, throttled := b.rate.Load(), b.throttled.Load()
	refused := b.loan.refused.Swap(throttled) != throttled
	since := min(int64(now)-b.loan.asked.Swap(int64(now)), int64(grain))
	if rt == nil || !refused || since <= 0 {
		return 0
	}
	own := rt.perSecond
	if rt.eachPeak > 0 {
		own = burstMax // while it has savings
	}
	return ru.Units(float64((Most-own)*int64(ru.Unit)) * float64(since) / 1e9)
}

// LendIdle takes up to wanted units out of a leader's balance, for another partition: what it is given itself in the
// time since it has lent last, if that is there, and at most half of what is there, so who asks next is let in. What
// was saved for bursts is not lent. The term is as for Admit.
func (b *Budget) LendIdle(term uint64, wanted ru.Units, now Instant) ru.Units {
	rt := b.rate.Load()
	if rt == nil || wanted <= 0 {
		return 0
	}
	b.renew(term, now)
	before := b.loan.lent.Load()
	from := max(before, int64(now)-int64(grain))
	there := float64(int64(now)-max(b.sustained.Load(), int64(now)-int64(grain))) / rt.each / 2
	lent := min(wanted, ru.Units(there), ru.Units(float64(int64(now)-from)/rt.each))
	if lent <= 0 || !b.loan.lent.CompareAndSwap(before, from+int64(float64(lent)*rt.each)) {
		return 0 // another one borrows at this moment
	}
	moveOn(&b.sustained, int64(now)-int64(rt.saved), float64(lent)*rt.each)
	b.loan.lentAll.Add(int64(lent))
	return lent
}

// Borrow adds what others have lent, as far as it may be saved.
func (b *Budget) Borrow(u ru.Units, now Instant) {
	rt := b.rate.Load()
	if rt == nil || u <= 0 {
		return
	}
	moveBack(&b.sustained, int64(now)-int64(rt.saved), float64(u)*rt.each)
	if rt.eachPeak > 0 {
		moveBack(&b.peak, int64(now)-int64(grain), float64(u)*rt.eachPeak)
	}
	b.loan.borrowedAll.Add(int64(u))
}

// Loans are the units that were lent to others and borrowed of them, of all time.
func (b *Budget) Loans() (lent, borrowed ru.Units) {
	return ru.Units(b.loan.lentAll.Load()), ru.Units(b.loan.borrowedAll.Load())
}

func moveBack(zero *atomic.Int64, least int64, by float64) {
	for {
		old := zero.Load()
		if zero.CompareAndSwap(old, max(old-int64(by), least)) {
			return
		}
	}
}
