// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"time"
)

const (
	// replayEvery is how often a node looks for atomic batches whose coordinator is gone, replayAfter how old they are
	// then at least.
	replayEvery = 5 * time.Second
	replayAfter = 10 * time.Second
)

// Replayer finishes atomic batches whose coordinator is gone, or has given up. Its fields are set before it is used.
type Replayer struct {
	Coordinator *Coordinator
	// Done is told how many batches were finished, more than none, Failed why some were not.
	Done   func(batches int)
	Failed func(error)
}

// Run looks for batches every few seconds until ctx ends.
func (r *Replayer) Run(ctx context.Context) {
	for r.Coordinator.sched.Sleep(ctx, replayEvery) == nil {
		r.finish(ctx, replayAfter)
	}
}

// FinishOwn finishes the batches that this process left before it ended, before clients come. Only a node that has no
// others knows that all are its own.
func (r *Replayer) FinishOwn(ctx context.Context) {
	const whateverItsStamp = -24 * time.Hour // stamps may be ahead of the clock
	for r.finish(ctx, whateverItsStamp) > 0 && ctx.Err() == nil {
	}
}

func (r *Replayer) finish(ctx context.Context, olderThan time.Duration) int {
	done, err := r.Coordinator.ReplayBatches(ctx, olderThan)
	if done > 0 {
		r.Done(done)
	}
	if err != nil && ctx.Err() == nil {
		r.Failed(err)
	}
	return done
}
