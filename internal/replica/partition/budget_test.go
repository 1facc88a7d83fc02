// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// meteredReplica is a replica with a budget and nothing else, and its clock.
func meteredReplica(perSecond int64) (*Replica, *atomic.Int64) {
	now := new(atomic.Int64)
	now.Store(int64(time.Hour))
	r := &Replica{id: 7, host: &Host{budgetClock: func() raftgroup.Instant { return raftgroup.Instant(now.Load()) }}}
	r.budget.set(perSecond, r.host.budgetClock())
	return r, now
}

// take asks for requests of one price, each as soon as the one before is answered or may be tried again, until some
// time has passed; it returns what it got.
func take(r *Replica, now *atomic.Int64, term uint64, price ru.Units, d time.Duration) (got ru.Units) {
	end := now.Load() + int64(d)
	for now.Load() < end {
		err := r.admit(term)
		if busy, ok := errors.AsType[*dberr.Overloaded](err); ok {
			now.Add(int64(busy.RetryAfter))
			continue
		}
		r.budget.charge(price)
		got += price
		now.Add(int64(10 * time.Microsecond))
	}
	return got
}

// TestBudget proves how much a partition gives under overload: 10,000 RU/s and 6,000 RU/s within 1 % over 30 s, also if
// it was idle before and if single requests cost more than a second gives; never more than ThroughputMax.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		perSecond int64
		price     ru.Units
		want      float64
	}{
		{10_000, ru.Unit, 10_000}, {6_000, 5 * ru.Unit, 6_000}, {3_000, 100 * ru.Unit, 3_000},
		{50_000, ru.Unit, 10_000}, {4_000, 5_000 * ru.Unit, 4_000},
	} {
		r, now := meteredReplica(c.perSecond)
		now.Add(int64(time.Hour)) // it was idle, and has saved nothing by that
		got := take(r, now, 1, c.price, 30*time.Second).Float() / 30
		slack := c.want/100 + c.price.Float()/30
		if math.Abs(got-c.want) > slack {
			t.Errorf("%d RU/s, %v RU each: %.0f RU/s", c.perSecond, c.price.Float(), got)
		}
	}
}

// TestBurst proves that a partition of less than 3,000 RU/s may take what it has not used in 300 s at up to 3,000 RU/s,
// and no more than its own rate after that.
func TestBurst(t *testing.T) {
	r, now := meteredReplica(400)
	if err := r.admit(1); err != nil {
		t.Fatal(err)
	}
	now.Add(int64(time.Hour))
	saved := 300. * 400
	lasts := time.Duration(saved / (3000 - 400) * float64(time.Second))
	if got := take(r, now, 1, ru.Unit, lasts).Float(); math.Abs(got-3000*lasts.Seconds()) > 0.02*got {
		t.Errorf("the burst gave %.0f RU in %v, want 3000 a second", got, lasts)
	}
	take(r, now, 1, ru.Unit, 2*time.Second) // what little is left of it
	if got := take(r, now, 1, ru.Unit, 30*time.Second).Float() / 30; math.Abs(got-400) > 4 {
		t.Errorf("after it: %.0f RU/s, want 400", got)
	}
}

// TestBudgetChangesHands proves that a new leader begins with one second of the budget at most, and that what came of a
// split, or of a merge, has the balance that was there, debts included.
func TestBudgetChangesHands(t *testing.T) {
	r, now := meteredReplica(400)
	now.Add(int64(time.Hour))
	if got := take(r, now, 2, ru.Unit, 100*time.Millisecond).Float(); got > 400+40+1 || got < 300 {
		t.Errorf("a new leader gave %.0f RU at once, want 400", got)
	}
	r, now = meteredReplica(6_000)
	take(r, now, 1, ru.Unit, 10*time.Second)
	r.budget.charge(6_000 * ru.Unit) // it owes a second
	child, _ := meteredReplica(0)
	child.host = r.host
	child.budget.inherit(&r.budget)
	r.budget.set(3_000, r.host.budgetClock())
	child.budget.set(3_000, r.host.budgetClock())
	for _, half := range []*Replica{r, child} {
		busy, ok := errors.AsType[*dberr.Overloaded](half.admit(1))
		if !ok || busy.RetryAfter < 900*time.Millisecond || busy.RetryAfter > 1100*time.Millisecond {
			t.Errorf("a half that owes a second: %+v", busy)
		}
	}
	rich, _ := meteredReplica(3_000)
	rich.budget.absorb(&child.budget)
	if err := rich.admit(1); err == nil {
		t.Error("a merge has forgotten a debt")
	}
	r.budget.set(0, r.host.budgetClock())
	if err := r.admit(1); err != nil {
		t.Errorf("without a throughput: %v", err)
	}
}

// TestRefusalOfBudget proves that the official retry policies of Cosmos DB find in the refusal what they look for: they
// split the text at commas and then at equals signs, and want an integer behind the key RetryAfterMs.
func TestRefusalOfBudget(t *testing.T) {
	r, _ := meteredReplica(400)
	r.budget.charge(500*ru.Unit + 400*ru.Unit/2)
	err := r.admit(1)
	busy, ok := errors.AsType[*dberr.Overloaded](err)
	if !ok || !strings.HasPrefix(err.Error(), "Request rate is large: ActivityID=") ||
		!strings.Contains(err.Error(), "Physical partition 7") {
		t.Fatal(err)
	}
	found := time.Duration(-1)
	for _, token := range strings.Split(err.Error(), ",") {
		if kv := strings.Split(token, "="); len(kv) == 2 && strings.TrimSpace(kv[0]) == "RetryAfterMs" {
			n, err := strconv.Atoi(kv[1])
			if err != nil {
				t.Fatal(err)
			}
			found = time.Duration(n) * time.Millisecond
		}
	}
	if found != busy.RetryAfter || found <= 0 {
		t.Errorf("found %v in %q, want %v", found, err, busy.RetryAfter)
	}
}

// BenchmarkBudget is what admission and metering cost a request of a partition with a throughput, and a refusal.
func BenchmarkBudget(b *testing.B) {
	opened := time.Now()
	r := &Replica{id: 7, host: &Host{budgetClock: func() raftgroup.Instant {
		return raftgroup.Instant(time.Since(opened))
	}}}
	r.budget.set(ThroughputMax, 0)
	b.Run("admitted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if r.admit(1) != nil {
				b.Fatal("refused")
			}
			r.hasRead(1, 1, 100)
		}
	})
	b.Run("refused", func(b *testing.B) {
		r.budget.charge(1e6 * ru.Unit)
		b.ReportAllocs()
		for b.Loop() {
			if r.admit(1) == nil {
				b.Fatal("admitted")
			}
		}
	})
}
