// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// siblings are the partitions of a table. Every tenth of a second, the first partition borrows the units that the other
// partitions lend.
type siblings struct {
	budgets []*Budget
	*clock
}

func newSiblings(n int, each int64) *siblings {
	s := &siblings{clock: &clock{now: Instant(time.Hour)}}
	for range n {
		b := new(Budget)
		b.Set(each, s.now)
		s.budgets = append(s.budgets, b)
	}
	return s
}

// run sends the given number of request units per second to each sibling, in requests of 1 RU. run returns the units
// per second that each sibling granted.
func (s *siblings) run(asked []int64, d time.Duration) []float64 {
	got := make([]float64, len(asked))
	owed := make([]float64, len(asked))
	begin := s.now
	for step := 0; s.now < begin+Instant(d); step++ {
		s.pass(time.Millisecond)
		for i, perSecond := range asked {
			for owed[i] += float64(perSecond) / 1000; owed[i] >= 1; owed[i]-- {
				if s.budgets[i].Admit(1, one, s.now) == 0 {
					s.budgets[i].Charge(one, ru.Unit)
					got[i] += 1 / d.Seconds()
				}
			}
		}
		if step%100 == 0 {
			s.lend()
		}
	}
	return got
}

func (s *siblings) lend() {
	wanted := s.budgets[0].Shortfall(s.now)
	for _, b := range s.budgets[1:] {
		lent := b.LendIdle(1, wanted, s.now)
		s.budgets[0].Borrow(lent, s.now)
		wanted -= lent
	}
}

// TestLoan checks that a partition whose demand exceeds its share gets up to 10,000 RU/s while its siblings are idle.
// While they are busy, it gets only its share. Together, all siblings must never grant more than the sum of their
// shares and savings. A sibling that was idle must get its share as soon as it requests it.
func TestLoan(t *testing.T) {
	for name, c := range map[string]struct {
		each  int64
		asked []int64
		want  []float64
	}{
		"idle siblings":              {6000, []int64{20_000, 0, 0}, []float64{10_000, 0, 0}},
		"siblings that do something": {6000, []int64{20_000, 4500, 4500}, []float64{9000, 4500, 4500}},
		"busy siblings":              {6000, []int64{20_000, 6000, 9000}, []float64{6000, 6000, 6000}},
		"little to lend":             {4000, []int64{20_000, 1000}, []float64{7000, 1000}},
		"nothing is refused":         {6000, []int64{5000, 0}, []float64{5000, 0}},
		"below the burst":            {1000, []int64{20_000, 0, 0}, []float64{3000, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiblings(len(c.asked), c.each)
			s.run(c.asked, 2*time.Second) // spend the savings, and wait until the loans are stable
			got := s.run(c.asked, 10*time.Second)
			sum, all := 0., float64(c.each)*float64(len(c.asked))
			for i, g := range got {
				sum += g
				if math.Abs(g-c.want[i]) > 0.03*c.want[i] {
					t.Errorf("partition %d gives %.0f RU/s, want %.0f: %.0f", i, g, c.want[i], got)
				}
			}
			if sum > 1.01*all {
				t.Errorf("total throughput: got %.0f RU/s, want %.0f", sum, all)
			}
			asked := []int64{20_000, 2 * c.each, 2 * c.each}[:len(c.asked)]
			for i, g := range s.run(asked, 10*time.Second) {
				if c.each >= burstMax && math.Abs(g-float64(c.each)) > 0.05*float64(c.each) {
					t.Errorf("where all want more, partition %d gives %.0f RU/s of its %d", i, g, c.each)
				}
			}
		})
	}
}
