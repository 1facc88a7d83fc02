// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// indexWaiter lets a follower's read wait, with a timer for its deadline. The indexWaiter is reused, because the
// channel and the timers that a context with a deadline allocates for its first waiter cost more than the rest of the
// wait.
type indexWaiter struct {
	outcome outcomeWaiter
	timer   *time.Timer
}

func newIndexWaiter() *indexWaiter {
	a := &indexWaiter{outcome: make(outcomeWaiter, 1), timer: time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

// wait returns the outcome, or an error at the deadline of the context. In the latter case, the outcome is still
// pending, and the indexWaiter must not be reused. A context that ends before its deadline does not end the wait:
// raftgroup responds within an election timeout.
func (a *indexWaiter) wait(ctx context.Context, d *SimHooks) (raftgroup.Outcome, error) {
	at, bounded := ctx.Deadline()
	if d != nil || !bounded {
		return await(d, waitLimit{ctx: ctx}, a.outcome)
	}
	a.timer.Reset(time.Until(at))
	defer a.timer.Stop()
	select {
	case o := <-a.outcome:
		return o, nil
	case <-a.timer.C:
		return raftgroup.Outcome{}, context.DeadlineExceeded
	}
}
