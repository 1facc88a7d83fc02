// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// awaitBudget waits until a partition that refused a read, because it has spent what it may take for now, may be asked
// again. It returns false at once for another error, and where that is not before a time.
func (e *Engine) awaitBudget(ctx context.Context, err error, until time.Time) bool {
	wait, s := time.Duration(0), e.opts.Sched
	if busy, ok := errors.AsType[*dberr.Overloaded](err); ok {
		wait = busy.RetryAfter
	} else if told, ok := errors.AsType[*Error](err); ok {
		wait = told.RetryAfter
	}
	if wait <= 0 || !s.Now().Add(wait).Before(until) {
		return false
	}
	return s.Sleep(ctx, wait) == nil
}

// piece is next, for a request that has read something before: it has paid for that, so it waits for budget until a
// time instead of being refused in its middle. After an error the scan is where it was.
func (x *scan) piece(ctx context.Context, goesOn bool, until time.Time) error {
	for {
		at := x.at
		err := x.next(ctx)
		if err == nil {
			return nil
		}
		if x.at = at; !goesOn || !x.e.awaitBudget(ctx, err, until) {
			return err
		}
	}
}

// isSpent reports whether an error is that of a partition that has spent what it may take for now.
func isSpent(err error) bool {
	busy, ok := errors.AsType[*dberr.Overloaded](err)
	return ok && busy.RetryAfter > 0
}
