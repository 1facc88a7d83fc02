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
	newestWait = time.Second
	// newestPause is how long nobody waits for that after it was waited for in vain: refusals shall not take the
	// workers away from what can be done without a leader of the meta partition.
	newestPause = 5 * time.Second
	// newestChangeWait bounds it before the schema, roles or all rows of a table are changed.
	newestChangeWait = 10 * time.Second
)

// verdict is what becomes of a request that was refused.
type verdict int

const (
	// refused: the refusal stands.
	refused verdict = iota
	// offload: whether it stands has to be found out where the request may block.
	offload
	// again: the schema and the roles here are the newest now; they were perhaps not when the request was refused.
	again
)

// judge returns the verdict on a request that was refused with err, which may be nil, and the error to answer with if
// the refusal stands. This node may have missed a change for a moment, such as the table that the statement names: it
// was away, or is slow. (SE7)
func (e *Engine) judge(ctx context.Context, c *Call, err error) (verdict, error) {
	if e.opts.Newest == nil || err == nil {
		return refused, err
	}
	_, invalid := errors.AsType[*dberr.Invalid](err)
	_, unauthorized := errors.AsType[*dberr.Unauthorized](err)
	switch {
	case !invalid && !unauthorized:
		return refused, err
	case e.opts.Now().UnixNano() < e.unanswered.Load():
		return refused, unconfirmed(err)
	case !c.MayBlock:
		return offload, err
	case e.newest(ctx, newestWait) != nil:
		if ctx.Err() == nil {
			e.unanswered.Store(e.opts.Now().Add(newestPause).UnixNano())
		}
		return refused, unconfirmed(err)
	}
	return again, err
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
func (e *Engine) newest(ctx context.Context, limit time.Duration) error {
	if e.opts.Newest == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return e.opts.Newest(ctx)
}
