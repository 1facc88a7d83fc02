// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// The pauses before a SELECT is repeated: elections take longer than the shortest, and nobody is to wait for longer
// than the longest.
const (
	restartPauseMin = time.Millisecond
	restartPauseMax = 50 * time.Millisecond
)

// repetition is the repeating of one SELECT. The coordinator asks for it (coordinator.ErrRepeat) when rows were passed
// on which a replica could not confirm afterwards: it may not have been the leader any more, so that newer writes may
// be missing among them.
type readRestart struct {
	engine *Engine
	began  time.Time
	pause  time.Duration
}

// wait returns when the SELECT is to be executed once more, or the error that it ends with.
func (r *readRestart) wait(ctx context.Context, level dberr.Consistency) error {
	left := r.engine.opts.ReadTimeout - r.engine.opts.Now().Sub(r.began)
	if left <= 0 {
		return &dberr.ReadTimeout{Level: level, BlockFor: 1}
	}
	r.pause = min(max(2*r.pause, restartPauseMin), restartPauseMax)
	timer := time.NewTimer(min(r.pause, left))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.engine.readRestarts.Add(1)
	if t := trace.From(ctx); t != nil {
		t.Add("Executing the statement again: what was read could not be confirmed")
	}
	return nil
}
