// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// one is the principal of requests in tests that do not depend on the principal.
var one = fairshare.Principal{User: 1, Connection: 1}

// demand is a principal that sends a number of requests per second at a price, without waiting for responses.
type demand struct {
	fairshare.Principal
	perSecond float64
	price     ru.Units
}

// divide runs demands against a budget for twenty seconds. divide returns the request units per second that each
// demand received in the last fifteen seconds, and their sum.
func divide(perSecond int64, demands []demand) (got []float64, sum float64) {
	b, c := newBudget(perSecond)
	rng := rand.New(rand.NewPCG(1, 2))
	got = make([]float64, len(demands))
	take(b, c, 1, ru.Unit, 310*time.Second*time.Duration(min(1, burstMax/perSecond))) // spend the savings
	for begin := c.now; c.now < begin+Instant(20*time.Second); c.pass(time.Millisecond) {
		var asks []int
		for i := range demands {
			n := int(demands[i].perSecond / 1000)
			if rng.Float64() < demands[i].perSecond/1000-float64(n) {
				n++
			}
			for range n {
				asks = append(asks, i)
			}
		}
		rng.Shuffle(len(asks), func(i, k int) { asks[i], asks[k] = asks[k], asks[i] })
		for _, i := range asks {
			d := &demands[i]
			if b.Admit(1, d.Principal, c.now) > 0 {
				continue
			}
			b.Charge(d.Principal, d.price)
			if c.now >= begin+Instant(5*time.Second) {
				got[i] += d.price.Float() / 15
				sum += d.price.Float() / 15
			}
		}
	}
	return got, sum
}

// TestScarce checks that an overloaded budget is divided evenly among users, independent of the price of a request. The
// number of a user's requests and connections must not matter either. A share that one user does not request goes to
// the other users, and low priority gets the remainder. All users together must receive exactly the budget.
func TestScarce(t *testing.T) {
	user := func(n uint32, perSecond float64, price ru.Units) demand {
		return demand{fairshare.Principal{User: n, Connection: n}, perSecond, price}
	}
	low := func(d demand) demand {
		d.Low = true
		return d
	}
	many := []demand{user(1, 8000, ru.Unit)}
	for i := range uint32(10) {
		many = append(many, demand{fairshare.Principal{User: 2, Connection: 100 + i}, 4000, ru.Unit})
	}
	loud := []demand{{fairshare.Principal{User: 3, Connection: 1}, 50_000, ru.Unit}}
	for i := range uint32(4) {
		loud = append(loud, demand{fairshare.Principal{User: 3, Connection: 2 + i}, 500, ru.Unit})
	}
	for name, c := range map[string]struct {
		rate    int64
		demands []demand
		want    []float64 // in RU/s, for the first demands
		slack   float64   // relative to the expected value
	}{
		"one alone": {6000, []demand{user(1, 20_000, ru.Unit)}, []float64{6000}, 0.01},
		"twenty times as much": {10_000, []demand{user(1, 120_000, ru.Unit), user(2, 6_000, ru.Unit)},
			[]float64{5000, 5000}, 0.05},
		"writes of a small table": {400, []demand{user(1, 1000, 5*ru.Unit), user(2, 45, 5*ru.Unit)},
			[]float64{200, 200}, 0.12},
		"a tenth is asked for": {10_000, []demand{user(1, 50_000, ru.Unit), user(2, 1000, ru.Unit)},
			[]float64{9000, 1000}, 0.03},
		"scans and point reads": {1000, []demand{user(1, 100, 100*ru.Unit), user(2, 450, ru.Unit)},
			[]float64{550, 450}, 0.1},
		"three unequal": {6000, []demand{user(1, 90_000, ru.Unit), user(2, 9_000, ru.Unit), user(3, 2_500, ru.Unit)},
			[]float64{2000, 2000, 2000}, 0.06},
		"many connections":  {10_000, many, []float64{5000}, 0.08},
		"a loud connection": {10_000, loud, []float64{8000, 500, 500, 500, 500}, 0.05},
		"too much of normal": {6000, []demand{user(1, 12_000, ru.Unit), low(user(2, 12_000, ru.Unit))},
			[]float64{6000, 0}, 0.02},
		"half of normal": {6000, []demand{user(1, 3_000, ru.Unit), low(user(1, 12_000, ru.Unit))},
			[]float64{3000, 3000}, 0.03},
		"low alone": {6000, []demand{low(user(1, 12_000, ru.Unit))}, []float64{6000}, 0.01},
	} {
		got, sum := divide(c.rate, c.demands)
		due := 0.
		for _, d := range c.demands {
			due += d.perSecond * d.price.Float()
		}
		due = min(due, float64(c.rate))
		if math.Abs(sum-due) > due/100 {
			t.Errorf("%s: %.0f RU/s in all, want %.0f", name, sum, due)
		}
		for i, want := range c.want {
			if math.Abs(got[i]-want) > c.slack*want+5 {
				t.Errorf("%s: %.0f RU/s, want %.0f", name, got, c.want)
				break
			}
		}
		t.Logf("%s: %.0f", name, got)
	}
}

// TestEnough checks that a budget records no principals while it meets the demand, and that it drops the records some
// time after a period of contention.
func TestEnough(t *testing.T) {
	b, c := newBudget(6000)
	for range 10_000 {
		if b.Admit(1, one, c.now) > 0 {
			t.Fatal("refused")
		}
		b.Charge(one, ru.Unit)
		c.pass(200 * time.Microsecond)
	}
	if b.contention.Load() != nil {
		t.Error("claims are recorded although no request was rejected")
	}
	take(b, c, 1, ru.Unit, time.Second)
	if b.Forget(c.now); b.contention.Load() == nil {
		t.Error("it is removed immediately")
	}
	c.pass(contentionTTL)
	c.pass(1)
	if b.Forget(c.now); b.contention.Load() != nil {
		t.Error("the record is never removed")
	}
}
