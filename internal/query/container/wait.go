// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// awaitBudget waits until a partition that rejected a read because it had no request units left can be read again.
// awaitBudget returns false immediately for other errors, or if the partition would not be ready before until.
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

// piece works like next for a request that has already read and been charged for data. Therefore, if the request units
// are exhausted, piece waits for new request units until the given time instead of failing immediately. After an error,
// the scan keeps its previous position.
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

// isSpent reports whether an error means that a partition has used up its request units.
func isSpent(err error) bool {
	busy, ok := errors.AsType[*dberr.Overloaded](err)
	return ok && busy.RetryAfter > 0
}
