// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// evaluationParts divides the evaluation memory. One evaluation may hold up to 1/evaluationParts of the memory.
	evaluationParts = 2
	// pauseSteps is the number of steps beyond the allowance after which a page of a streaming query ends. The work of
	// pauseSteps steps takes about a second.
	pauseSteps = 30_000_000
	// latchedSteps limits the work of a condition. While a condition is evaluated, other writes of the logical
	// partition wait.
	latchedSteps = 5_000_000
)

// Evaluation returns a meter that limits an evaluation for a client. The meter has no deadline. The caller must close
// it.
func (e *Engine) Evaluation(ctx context.Context, who fairshare.Principal) *meter.Meter {
	return meter.New(ctx, e.evaluation(who))
}

const (
	// compiledBytes is the memory that a compiled or running query uses per byte of its text. Query texts of up to
	// compiledFree bytes are not counted.
	compiledBytes = 64
	compiledFree  = 2 << 10
)

// Compiling reserves memory for the compilation of a query until release is called. The longest text takes half of the
// evaluation memory, so one such query can always be compiled.
func (e *Engine) Compiling(text string) (release func(), err error) {
	pool := e.opts.Memory
	if pool == nil || len(text) <= compiledFree {
		return func() {}, nil
	}
	n := min(compiledBytes*int64(len(text)), pool.Max()/evaluationParts)
	if !pool.Take(n) {
		return nil, refused(&dberr.Overloaded{Message: "The node is executing too many long queries. Retry later, or send a " +
			"shorter query"})
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

// monotonicClock is the clock of the deadlines of contexts.
type monotonicClock struct{ *sched.Scheduler }

// Wall implements sched.Clock.
func (c monotonicClock) Wall() time.Time { return c.Now() }

// evaluate starts the evaluation of a page. A page of a streaming query ends after QueryTime. The query fails if a
// single item takes more than twice that time. Other queries are limited only by their context.
func (x *pageScan) evaluate(ctx context.Context) *meter.Meter {
	l := x.e.evaluation(x.request.Claimant)
	l.Clock = monotonicClock{x.e.opts.Sched}
	l.Deadline, _ = ctx.Deadline()
	if x.streams {
		l.Deadline = l.Clock.Wall().Add(2 * x.e.opts.QueryTime)
	}
	x.meter = meter.New(ctx, l)
	return x.meter
}

// latched returns the meter of an evaluation under the latch of a logical partition. latched never waits for a slot.
func (e *Engine) latched(ctx context.Context, steps int64) *meter.Meter {
	l := e.evaluation(fairshare.Principal{})
	l.Slots, l.Steps = nil, steps
	return meter.New(ctx, l)
}

// evaluated returns the charge for the work of an evaluation beyond its allowance.
func evaluated(m *meter.Meter) ru.Units { return ru.Evaluation(m.Excess()) }

// spend deducts the charge for the evaluation work since the previous call to spend from the balance of the current
// partition. The charge of the page includes this amount.
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

// tired reports whether a page of a streaming query must end because it has reached its time or work limit.
func (x *pageScan) tired(items int) bool {
	return x.meter.Excess() > pauseSteps || items%chunkRowsLeast == 0 && x.e.opts.Sched.Now().After(x.until)
}
