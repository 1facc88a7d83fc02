// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// meteredReplica is a replica that has only a budget.
func meteredReplica(perSecond int64) *Replica {
	opened := time.Now()
	r := new(Replica)
	r.init(&Host{budgetClock: func() budget.Instant { return budget.Instant(time.Since(opened)) }}, 7)
	r.throughput.budget.Set(perSecond, r.host.budgetClock())
	return r
}

// TestRefusalOfBudget checks that the retry policies of Cosmos DB's SDKs can parse a rejection. These policies split
// the text at commas and then at equals signs, and expect an integer after the key RetryAfterMs.
func TestRefusalOfBudget(t *testing.T) {
	r := meteredReplica(400)
	r.throughput.budget.Charge(fairshare.Principal{}, 1000*ru.Unit)
	err := r.throughput.admit(1, fairshare.Principal{})
	busy, ok := errors.AsType[*dberr.Overloaded](err)
	if !ok || !strings.HasPrefix(err.Error(), "Request rate is large: ActivityID=") ||
		!strings.Contains(err.Error(), "TooManyRequests (429): physical partition 7") {
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

// TestSpend checks that the cost of evaluating rows is deducted from the balance. The leader must reject the next
// request. A follower must ask the leader before it serves a request, and must pay the cost at that time.
func TestSpend(t *testing.T) {
	r := meteredReplica(400)
	r.seq = &evaluator{term: 1}
	who := fairshare.Principal{User: 1}
	if err := r.throughput.admit(1, who); err != nil {
		t.Fatal(err)
	}
	r.Spend(who, 5, []byte("k"), 10_000*ru.Unit)
	if err := r.throughput.admit(1, who); err == nil {
		t.Error("the leader admits a request with a negative balance")
	}
	if c := r.Load().Counts(); c.Units != 10_000*ru.Unit || c.Reads != 0 {
		t.Errorf("%+v", c)
	}
	f := meteredReplica(400)
	f.seq = &evaluator{}
	f.host.budgetClock = func() budget.Instant { return budget.Instant(time.Hour) }
	f.Throughput().Lent(20*ru.Unit, ru.Unit)
	if !f.Throughput().AllowsLocalRead(who) {
		t.Fatal("the follower has something")
	}
	f.Spend(who, 5, nil, 100*ru.Unit)
	if f.Throughput().AllowsLocalRead(who) {
		t.Error("the follower serves a read though it owes")
	}
	var c command.Read
	if f.Throughput().Borrow(&c); ru.Units(c.Owed) != 80*ru.Unit {
		t.Errorf("the follower pays %d units", ru.Units(c.Owed)/ru.Unit)
	}
}

// evaluator is a sequencer that evaluates commands in a term, or in no term if the term is 0.
type evaluator struct {
	sequencer
	term uint64
}

func (e *evaluator) evaluating() uint64 { return e.term }

// BenchmarkBudget measures the admission, metering, and rejection of a request with provisioned throughput.
func BenchmarkBudget(b *testing.B) {
	r := meteredReplica(budget.MaxPerSecond)
	key, tokens, n := []byte("key"), make([]token.Token, 1<<16), 0
	random := rand.New(rand.NewPCG(1, 2))
	for i := range tokens {
		tokens[i] = token.Token(random.ExpFloat64()*100) * 0x9e3779b97f4a7c1
	}
	b.Run("admitted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if r.throughput.admit(1, fairshare.Principal{}) != nil {
				b.Fatal("refused")
			}
			n++
			r.load.recordRead(fairshare.Principal{}, false, usage.Point, 1, 1, 100, tokens[n%len(tokens)], key)
		}
	})
	b.Run("refused", func(b *testing.B) {
		r.throughput.budget.Charge(fairshare.Principal{}, 1e6*ru.Unit)
		b.ReportAllocs()
		for b.Loop() {
			if r.throughput.admit(1, fairshare.Principal{}) == nil {
				b.Fatal("admitted")
			}
		}
	})
}
