// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// answer is what a follower's read waits for, with the timer that bounds the wait; it is used again. The channel and
// the timers that a context with a deadline makes for its first waiter cost more than the rest of
// the wait.
type answer struct {
	told  outcomeWaiter
	timer *time.Timer
}

func newAnswer() *answer {
	a := &answer{told: make(outcomeWaiter, 1), timer: time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

// wait returns the outcome, or an error at the deadline of the context; then the answer is still to come and must not
// be used again. A context that ends before its deadline ends nothing here: raftgroup answers within an election
// timeout.
func (a *answer) wait(ctx context.Context, d *Drive) (raftgroup.Outcome, error) {
	at, bounded := ctx.Deadline()
	if d != nil || !bounded {
		return await(d, patience{ctx: ctx}, a.told)
	}
	a.timer.Reset(time.Until(at))
	defer a.timer.Stop()
	select {
	case o := <-a.told:
		return o, nil
	case <-a.timer.C:
		return raftgroup.Outcome{}, context.DeadlineExceeded
	}
}
