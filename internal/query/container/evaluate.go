// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// evaluationParts is the part of the memory for evaluations that one of them may hold.
	evaluationParts = 2
	// pauseSteps is after how much work beyond its allowance a page of a query that streams ends: a second of it.
	pauseSteps = 30_000_000
	// latchedSteps is the work of a condition, which is evaluated while other writes of its logical partition wait.
	latchedSteps = 5_000_000
)

// Evaluation returns the meter of an evaluation for a client; the caller closes it. It has no deadline.
func (e *Engine) Evaluation(ctx context.Context, who fairshare.Principal) *meter.Meter {
	return meter.New(ctx, e.evaluation(who))
}

const (
	// compiledBytes is how many bytes of memory each byte of a query's text takes when the query is compiled and while
	// it runs. A text of up to compiledFree bytes is not counted.
	compiledBytes = 64
	compiledFree  = 2 << 10
)

// Compiling reserves the memory of a query that is compiled, until release is called. The longest texts take half of
// the memory for evaluations, so that one of them can always be compiled.
func (e *Engine) Compiling(text string) (release func(), err error) {
	pool := e.opts.Memory
	if pool == nil || len(text) <= compiledFree {
		return func() {}, nil
	}
	n := min(compiledBytes*int64(len(text)), pool.Max()/evaluationParts)
	if !pool.Take(n) {
		return nil, refused(&dberr.Overloaded{Message: "The node runs too many long queries: try again later, or send a " +
			"shorter text"})
	}
	return func() { pool.Give(n) }, nil
}

func (e *Engine) evaluation(who fairshare.Principal) meter.Limits {
	l := meter.Limits{Pool: e.opts.Memory, Slots: e.opts.Slots, Who: who}
	if l.Pool != nil {
		l.Bytes = l.Pool.Max() / evaluationParts
	}
	return l
}

// evaluate begins the evaluation of a page. A page of what streams ends early after QueryTime; if an item alone takes
// longer, it is refused after twice the time. Others have as long as their context.
func (x *pageScan) evaluate(ctx context.Context) *meter.Meter {
	l := x.e.evaluation(x.request.Claimant)
	l.Clock = x.e.opts.Sched.Now
	l.Deadline, _ = ctx.Deadline()
	if x.streams {
		l.Deadline = l.Clock().Add(2 * x.e.opts.QueryTime)
	}
	x.meter = meter.New(ctx, l)
	return x.meter
}

// latched is the meter of an evaluation under the latch of a logical partition: it never waits for a slot.
func (e *Engine) latched(ctx context.Context, steps int64) *meter.Meter {
	l := e.evaluation(fairshare.Principal{})
	l.Slots, l.Steps = nil, steps
	return meter.New(ctx, l)
}

// evaluated is the price of the work that an evaluation has done beyond its allowance.
func evaluated(m *meter.Meter) ru.Units { return ru.Evaluation(m.Excess()) }

// spend takes the price of the work since the last call from the balance of the partition that the scan has come to.
// The charge of the page has all of it.
func (x *pageScan) spend() {
	price := evaluated(x.meter)
	if price <= x.spent || x.last == nil {
		return
	}
	t, key := x.last.q.Token, x.last.q.Key
	if key == nil {
		if t, key = token.AtPosition(x.last.q.Range.Begin), x.last.at.key; key != nil {
			t = token.AtPosition(x.last.at.ring)
		}
	}
	x.e.opts.Coordinator.Spend(x.c.table.ID, t, key, x.request.Claimant, price-x.spent)
	x.spent = price
}

// tired reports whether a page of what streams is to end: it has taken its time, or has done much work.
func (x *pageScan) tired(items int) bool {
	return x.meter.Excess() > pauseSteps || items%chunkRowsLeast == 0 && x.e.opts.Sched.Now().After(x.until)
}
