// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// retryPause is the pause between the attempts of Retry.
const retryPause = time.Second

// Retry calls change until change succeeds, the Keeper is closed, or ctx ends. timeout is the time limit of each
// attempt. Retry is used during the start of a cluster, because the meta partition may have no leader yet. It logs
// failed attempts.
func Retry(ctx context.Context, log *slog.Logger, what string, timeout time.Duration,
	change func(ctx context.Context) error) {
	var clock *sched.Scheduler // nil means real time, because the simulator does not call Retry
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		err := change(attempt)
		cancel()
		if err == nil || errors.Is(err, ErrClosed) {
			return
		}
		log.LogAttrs(ctx, slog.LevelDebug, what, slog.String("error", err.Error()))
		_ = clock.Sleep(ctx, retryPause) // the loop checks ctx
	}
}
