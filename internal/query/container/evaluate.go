// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// evaluationParts is the part of the memory for evaluations that one of them may hold.
	evaluationParts = 2
	// pauseSteps is after how much work beyond its allowance a page of a query that streams ends: a second of it.
	pauseSteps = 30_000_000
	// stepsPerUnit is how much work beyond the allowance costs one request unit.
	stepsPerUnit = 10_000
	// latchedSteps is the work of a condition, which is evaluated while other writes of its logical partition wait.
	latchedSteps = 5_000_000
)

// Evaluation returns the meter of an evaluation for a client; the caller closes it. It has no deadline.
func (e *Engine) Evaluation(ctx context.Context, who fairshare.Principal) *meter.Meter {
	return meter.New(ctx, e.evaluation(who))
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
func evaluated(m *meter.Meter) ru.Units { return ru.Units(m.Excess()/stepsPerUnit) * ru.Unit }

// tired reports whether a page of what streams is to end: it has taken its time, or has done much work.
func (x *pageScan) tired(items int) bool {
	return x.meter.Excess() > pauseSteps || items%chunkRowsLeast == 0 && x.e.opts.Sched.Now().After(x.until)
}
