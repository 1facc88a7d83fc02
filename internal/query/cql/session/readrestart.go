// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// A SELECT is restarted after a pause between these limits. An election takes longer than the minimum. A client should
// not wait longer than the maximum.
const (
	restartPauseMin = time.Millisecond
	restartPauseMax = 50 * time.Millisecond
)

// readRestart restarts one SELECT. The coordinator returns coordinator.ErrRepeat if a replica could not confirm rows
// that the SELECT has already received. The rows may lack recent writes because the replica may have lost its
// leadership.
type readRestart struct {
	engine *Engine
	began  time.Time
	pause  time.Duration
}

// wait waits until the SELECT can be restarted, or returns the final error of the SELECT.
func (r *readRestart) wait(ctx context.Context, level dberr.Consistency) error {
	left := r.engine.opts.ReadTimeout - r.engine.opts.Clock.Wall().Sub(r.began)
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
		t.Add("Restarting the statement: the rows could not be confirmed")
	}
	return nil
}
