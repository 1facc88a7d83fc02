// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

const (
	// barrierWait is the maximum duration of the read barrier that precedes a rejection.
	barrierWait = time.Second
	// barrierPause is the time during which rejections skip the read barrier after it has timed out. Without this
	// pause, rejected statements would occupy the workers while the meta partition has no leader.
	barrierPause = 5 * time.Second
	// changeBarrierWait is the maximum duration of the read barrier that precedes a TRUNCATE, a schema change, or a
	// role change.
	changeBarrierWait = 10 * time.Second
)

// recheckResult is the result of recheck.
type recheckResult int

const (
	// rejectionFinal means that the client receives the rejection.
	rejectionFinal recheckResult = iota
	// recheckOnWorker means that the request must be checked again on a goroutine that may block.
	recheckOnWorker
	// recheckNow means that the request must be checked again immediately, because the schema and the roles have been
	// updated.
	recheckNow
)

// recheck decides whether to check a rejected request again. err is the reason for the rejection and may be nil. If the
// rejection is final, recheck returns the error for the client. The schema of a node that was down or is slow may lack
// a recent change, such as the creation of the table (SE7).
func (e *Engine) recheck(ctx context.Context, c *Call, err error) (recheckResult, error) {
	if e.opts.Metadata == nil || err == nil {
		return rejectionFinal, err
	}
	_, invalid := errors.AsType[*dberr.Invalid](err)
	_, unauthorized := errors.AsType[*dberr.Unauthorized](err)
	switch {
	case !invalid && !unauthorized:
		return rejectionFinal, err
	case e.opts.Clock.Wall().UnixNano() < e.barrierPausedUntil.Load():
		return rejectionFinal, unconfirmed(err)
	case !c.MayBlock:
		return recheckOnWorker, err
	case e.readBarrier(ctx, barrierWait) != nil:
		if ctx.Err() == nil {
			e.barrierPausedUntil.Store(e.opts.Clock.Wall().Add(barrierPause).UnixNano())
		}
		return rejectionFinal, unconfirmed(err)
	}
	return recheckNow, err
}

// unconfirmed returns the error for a rejection if the node's schema may be outdated. The keyspace or table may exist
// in the current schema, so the error makes drivers retry on another node.
func unconfirmed(err error) error {
	if bad, ok := errors.AsType[*dberr.Invalid](err); ok && bad.Missing {
		return dberr.Serverf("The statement was not executed: %s in the schema of this node, which may be outdated because "+
			"the leader of the meta partition does not respond. Retry the statement.", bad.Message)
	}
	return err
}

// readBarrier waits until the schema and the roles of this node include every change acknowledged before the call.
func (e *Engine) readBarrier(ctx context.Context, limit time.Duration) error {
	if e.opts.Metadata == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return e.opts.Metadata.AwaitLatest(ctx)
}
