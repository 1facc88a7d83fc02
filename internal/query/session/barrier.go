// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

const (
	// newestWait bounds the wait for the newest schema before a statement is refused by the one that is here.
	barrierWait = time.Second
	// newestPause is how long nobody waits for that after it was waited for in vain: refusals shall not take the
	// workers away from what can be done without a leader of the meta partition.
	barrierPause = 5 * time.Second
	// newestChangeWait bounds it before the schema, roles or all rows of a table are changed.
	changeBarrierWait = 10 * time.Second
)

// verdict is what becomes of a request that was refused.
type recheckResult int

const (
	// refused: the refusal stands.
	rejectionFinal recheckResult = iota
	// offload: whether it stands has to be found out where the request may block.
	recheckOnWorker
	// again: the schema and the roles here are the newest now; they were perhaps not when the request was refused.
	recheckNow
)

// judge returns the verdict on a request that was refused with err, which may be nil, and the error to answer with if
// the refusal stands. This node may have missed a change for a moment, such as the table that the statement names: it
// was away, or is slow. (SE7)
func (e *Engine) recheck(ctx context.Context, c *Call, err error) (recheckResult, error) {
	if e.opts.ReadBarrier == nil || err == nil {
		return rejectionFinal, err
	}
	_, invalid := errors.AsType[*dberr.Invalid](err)
	_, unauthorized := errors.AsType[*dberr.Unauthorized](err)
	switch {
	case !invalid && !unauthorized:
		return rejectionFinal, err
	case e.opts.Now().UnixNano() < e.barrierPausedUntil.Load():
		return rejectionFinal, unconfirmed(err)
	case !c.MayBlock:
		return recheckOnWorker, err
	case e.readBarrier(ctx, barrierWait) != nil:
		if ctx.Err() == nil {
			e.barrierPausedUntil.Store(e.opts.Now().Add(barrierPause).UnixNano())
		}
		return rejectionFinal, unconfirmed(err)
	}
	return recheckNow, err
}

// unconfirmed returns the error for a refusal by a schema that may be old. A keyspace or a table that is not in it may
// exist: to deny that would be wrong, so the client gets an error that drivers repeat at another node.
func unconfirmed(err error) error {
	if bad, ok := errors.AsType[*dberr.Invalid](err); ok && bad.Missing {
		return dberr.Serverf("The statement was not carried out: %s in the schema of this node, which may be old because "+
			"the meta partition has no leader that answers. Repeat the statement.", bad.Message)
	}
	return err
}

// newest returns when schema and roles here have every change that was acknowledged before.
func (e *Engine) readBarrier(ctx context.Context, limit time.Duration) error {
	if e.opts.ReadBarrier == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return e.opts.ReadBarrier(ctx)
}
