// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// indexWaiter waits for an index on behalf of a follower's read until the deadline of the read. indexWaiters are
// reused, because allocating the channel and the timer costs more than the rest of the wait.
type indexWaiter struct {
	outcome outcomeWaiter
	timer   *time.Timer
}

func newIndexWaiter() *indexWaiter {
	a := &indexWaiter{outcome: make(outcomeWaiter, 1), timer: time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

// wait returns the outcome, or an error at the deadline of the context. After an error, the outcome is still pending,
// and the caller must not reuse the indexWaiter. Canceling the context does not end the wait, because raftgroup
// responds within an election timeout.
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
