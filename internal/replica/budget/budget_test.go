// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
)

// clock is a clock that a test advances.
type clock struct{ now Instant }

func (c *clock) pass(d time.Duration) { c.now += Instant(d) }

func newBudget(perSecond int64) (*Budget, *clock) {
	b, c := new(Budget), &clock{now: Instant(time.Hour)}
	b.Set(perSecond, c.now)
	return b, c
}

// take sends requests of one price until some time has passed, and returns the granted units. take sends each request
// after the response to the previous request, or after the wait time.
func take(b *Budget, c *clock, term uint64, price ru.Units, d time.Duration) (got ru.Units) {
	for end := c.now + Instant(d); c.now < end; {
		if wait := b.Admit(term, one, c.now); wait > 0 {
			c.pass((wait + time.Millisecond - 1).Truncate(time.Millisecond)) // clients receive the time in milliseconds
			continue
		}
		b.Charge(one, price)
		got += price
		c.pass(10 * time.Microsecond)
	}
	return got
}

// TestBudget checks the throughput that a partition grants under overload. It grants 10,000 RU/s or 6,000 RU/s within 1
// % over 30 s. This also applies after an idle period, and if single requests cost more than the units of a second.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		perSecond int64
		price     ru.Units
		want      float64
	}{
		{10_000, ru.Unit, 10_000}, {6_000, 5 * ru.Unit, 6_000}, {3_000, 100 * ru.Unit, 3_000},
		{50_000, ru.Unit, 10_000}, {4_000, 5_000 * ru.Unit, 4_000},
	} {
		b, clock := newBudget(c.perSecond)
		clock.pass(time.Hour) // the budget was idle, but has no savings from that time
		got := take(b, clock, 1, c.price, 30*time.Second).Float() / 30
		slack := c.want/100 + c.price.Float()/30
		if math.Abs(got-c.want) > slack {
			t.Errorf("%d RU/s, %v RU each: %.0f RU/s", c.perSecond, c.price.Float(), got)
		}
	}
}

// TestBurst checks that a partition of less than 3,000 RU/s can spend the savings of 300 s at up to 3,000 RU/s. After
// that, it can spend units only at its own rate.
func TestBurst(t *testing.T) {
	b, c := newBudget(400)
	if b.Admit(1, one, c.now) > 0 {
		t.Fatal("the first request has to wait")
	}
	c.pass(time.Hour)
	saved := 300. * 400
	lasts := time.Duration(saved / (3000 - 400) * float64(time.Second))
	if got := take(b, c, 1, ru.Unit, lasts).Float(); math.Abs(got-3000*lasts.Seconds()) > 0.02*got {
		t.Errorf("the burst gave %.0f RU in %v, want 3000 a second", got, lasts)
	}
	take(b, c, 1, ru.Unit, 2*time.Second) // spend the small remainder
	if got := take(b, c, 1, ru.Unit, 30*time.Second).Float() / 30; math.Abs(got-400) > 4 {
		t.Errorf("after it: %.0f RU/s, want 400", got)
	}
}

// TestChangesHands checks that a new leader starts with at most half a second of the budget. The test also checks that
// a partition created by a split or a merge inherits the balance of its origin, including debts.
func TestChangesHands(t *testing.T) {
	b, c := newBudget(400)
	c.pass(time.Hour)
	if got := take(b, c, 2, ru.Unit, 100*time.Millisecond).Float(); got > 200+40+1 || got < 150 {
		t.Errorf("a new leader granted %.0f RU immediately, want 200", got)
	}
	b, c = new(Budget), &clock{now: Instant(time.Millisecond)} // a node that has just started
	b.Set(400, c.now)
	if got := take(b, c, 1, ru.Unit, 100*time.Millisecond).Float(); got > 200+40+1 || got < 150 {
		t.Errorf("the leader on a new node granted %.0f RU immediately, want 200", got)
	}
	b, c = newBudget(6_000)
	take(b, c, 1, ru.Unit, 10*time.Second)
	b.Charge(one, 6_000*ru.Unit) // the debt is one second of throughput
	child := new(Budget)
	child.Inherit(b)
	if b.PerSecond() != 3_000 || child.PerSecond() != 3_000 {
		t.Errorf("6,000 RU/s became %d and %d", b.PerSecond(), child.PerSecond())
	}
	for _, half := range []*Budget{b, child} {
		if wait := half.Admit(1, one, c.now); wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
			t.Errorf("a half that owes a second has to wait for %v", wait)
		}
	}
	rich, _ := newBudget(3_000)
	rich.Absorb(child)
	if rich.Admit(1, one, c.now) == 0 {
		t.Error("a merge has forgotten a debt")
	}
	b.Set(0, c.now)
	if b.Bounded() || b.Admit(1, one, c.now) > 0 {
		t.Error("there is a bound without a throughput")
	}
}
