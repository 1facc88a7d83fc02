// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// errNoReplica says that the map names no replica that this node can ask. The map may change.
var errNoReplica = errors.New("no replica can be reached")

// ErrStaleSchema is returned for a write whose statement was bound to an older revision of its table, and for a read by
// an index that was dropped. Nothing was written; the rows that a read has passed on may not be all. The session binds
// the statement again and repeats it.
var ErrStaleSchema = partition.ErrStaleSchema

// gone reports whether an error says that there was no replica to ask. Nothing was done.
func gone(err error) bool { return errors.Is(err, errNoReplica) || errors.Is(err, partition.ErrClosed) }

// isAnswer reports whether an error is one that clients see as it is.
func isAnswer(err error) bool {
	switch err.(type) { //nolint:errorlint // what wraps an answer says more than the answer: it is told as a failure
	case *dberr.Invalid, *dberr.Overloaded, *dberr.Server, *dberr.Unavailable, *dberr.WriteTimeout, *dberr.WriteFailure,
		*dberr.ReadTimeout, *dberr.ReadFailure, *dberr.Truncate, *dberr.FunctionFailure, *dberr.Unauthorized,
		*dberr.Config:
		return true
	}
	return false
}

// refuses reports whether an answer says that nothing was done. It knows of the attempt that it ends only: one before,
// of which nothing was heard, may have been carried out, or may be when it comes. A table that is gone has taken along
// what any attempt has written, and clients are to know.
func refuses(err error) bool {
	if errors.Is(err, ErrUnknownTable) {
		return false
	}
	switch err.(type) { //nolint:errorlint // as in isAnswer
	case *dberr.Invalid, *dberr.Unavailable, *dberr.FunctionFailure, *dberr.Unauthorized, *dberr.Config:
		return true
	}
	return false
}

func timedOut(err error) bool {
	var latch *partition.LatchTimeout
	return errors.As(err, &latch) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// ErrUnknownTable answers a request for a table that was dropped while the request was on its way. The coordinator does
// not know the table's name.
var ErrUnknownTable error = &dberr.Invalid{Message: "unconfigured table"}

// writeError is what a client is told about a failed write.
func (e *errand) writeError(err error, kind string) error {
	if err == nil {
		return nil
	}
	return e.answered(e.writeAnswer(err, kind))
}

func (e *errand) writeAnswer(err error, kind string) error {
	late := &dberr.WriteTimeout{Level: e.level, BlockFor: max(e.required, 1), WriteType: kind}
	switch {
	case errors.Is(err, ErrStaleSchema), overloaded(err):
		if e.maybe {
			return late
		}
		if overloaded(err) {
			return err
		}
		return ErrStaleSchema
	case isAnswer(err):
		if e.maybe && refuses(err) {
			return late
		}
		return err
	case gone(err) && !e.maybe:
		return &dberr.Unavailable{Level: e.level, Required: max(e.required, 1)}
	case timedOut(err):
		return late
	}
	if why, _ := reasonOf(err); why != final {
		return late
	}
	return &dberr.WriteFailure{Level: e.level, BlockFor: max(e.required, 1), Failures: 1, WriteType: kind,
		Message: err.Error()}
}

// readError is what a client is told about a failed read.
func (e *errand) readError(err error, dataPresent bool) error {
	if err == nil {
		return nil
	}
	late := &dberr.ReadTimeout{Level: e.level, BlockFor: max(e.required, 1), DataPresent: dataPresent}
	switch {
	case isAnswer(err) || errors.Is(err, ErrRepeat) || errors.Is(err, ErrStaleSchema):
		return err
	case gone(err):
		return &dberr.Unavailable{Level: e.level, Required: max(e.required, 1)}
	case timedOut(err):
		return late
	}
	if why, _ := reasonOf(err); why != final {
		return late
	}
	return &dberr.ReadFailure{Level: e.level, BlockFor: max(e.required, 1), Failures: 1, DataPresent: dataPresent,
		Message: err.Error()}
}
