// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// loan records loans between partitions that share a throughput. The lender is charged before the borrower receives
// units, so loans do not increase the total throughput.
type loan struct {
	// lent is the instant up to which the budget has lent units. asked is the instant up to which the budget has
	// borrowed the maximum.
	lent, asked atomic.Int64
	// refused is the number of rejected requests at the last call of Shortfall.
	refused atomic.Uint64
	// lentAll and borrowedAll are the total numbers of units lent and borrowed.
	lentAll, borrowedAll atomic.Int64
}

// Shortfall returns the units that a leader needs to borrow from other partitions. The result is based on the
// difference between MaxPerSecond and the partition's own rate. It is 0 if the leader has rejected no requests since
// the previous call. Calls must not be concurrent.
func (b *Budget) Shortfall(now Instant) ru.Units {
	rt, throttled := b.rate.Load(), b.throttled.Load()
	refused := b.loan.refused.Swap(throttled) != throttled
	since := min(int64(now)-b.loan.asked.Swap(int64(now)), int64(grain))
	if rt == nil || !refused || since <= 0 {
		return 0
	}
	own := rt.perSecond
	if rt.eachPeak > 0 {
		own = burstMax // this rate applies while the partition has savings
	}
	return ru.Units(float64((MaxPerSecond-own)*int64(ru.Unit)) * float64(since) / 1e9)
}

// LendIdle takes up to wanted units from a leader's balance for another partition. It limits the loan to the units
// refilled since the previous loan and to half of the balance, so that the next request is still admitted. It does not
// lend savings for bursts. term has the same meaning as in Admit.
func (b *Budget) LendIdle(term uint64, wanted ru.Units, now Instant) ru.Units {
	rt := b.rate.Load()
	if rt == nil || wanted <= 0 {
		return 0
	}
	b.startTerm(term, now)
	before := b.loan.lent.Load()
	from := max(before, int64(now)-int64(grain))
	there := float64(int64(now)-max(b.sustained.Load(), int64(now)-int64(grain))) / rt.each / 2
	lent := min(wanted, ru.Units(there), ru.Units(float64(int64(now)-from)/rt.each))
	if lent <= 0 || !b.loan.lent.CompareAndSwap(before, from+int64(float64(lent)*rt.each)) {
		return 0 // another partition is borrowing concurrently
	}
	moveForward(&b.sustained, int64(now)-int64(rt.saved), float64(lent)*rt.each)
	b.loan.lentAll.Add(int64(lent))
	return lent
}

// Borrow adds units that other partitions have lent, up to the maximum saving.
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

// Loans returns the total units that this budget has lent to and borrowed from other partitions.
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
