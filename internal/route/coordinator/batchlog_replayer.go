// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"log/slog"
	"time"
)

const (
	// replayEvery is the interval between two searches for unfinished atomic batches. replayAfter is the minimum age of
	// the batches that a node replays.
	replayEvery = 5 * time.Second
	replayAfter = 10 * time.Second
)

// Replayer finishes atomic batches whose coordinators have stopped or have abandoned them. All fields must be set
// before use.
type Replayer struct {
	Coordinator *Coordinator
	Log         *slog.Logger
}

// Run replays batches every few seconds until ctx ends.
func (r *Replayer) Run(ctx context.Context) {
	for r.Coordinator.sched.Sleep(ctx, replayEvery) == nil {
		r.finish(ctx, replayAfter)
	}
}

// FinishOwn finishes the batches that the previous process has not finished. It must be called before clients connect.
// Only the single node of a cluster may call FinishOwn, because only this node has certainly created all batches.
func (r *Replayer) FinishOwn(ctx context.Context) {
	const whateverItsStamp = -24 * time.Hour // batch timestamps may be ahead of the clock
	for r.finish(ctx, whateverItsStamp) > 0 && ctx.Err() == nil {
	}
}

func (r *Replayer) finish(ctx context.Context, olderThan time.Duration) int {
	done, err := r.Coordinator.ReplayBatches(ctx, olderThan)
	if done > 0 {
		r.Log.LogAttrs(ctx, slog.LevelInfo, "batchlog replayed", slog.Int("batches", done))
	}
	if err != nil && ctx.Err() == nil {
		r.Log.LogAttrs(ctx, slog.LevelWarn, "batchlog replay failed", slog.String("error", err.Error()))
	}
	return done
}
