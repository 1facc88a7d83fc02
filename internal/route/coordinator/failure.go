// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// errNoReplica is returned if the topology contains no replica that this node can reach. A retry may succeed after a
// change of the topology.
var errNoReplica = errors.New("no replica is reachable")

// ErrStaleSchema is returned for a write that was planned for an older table revision, and for a read that uses a
// dropped index. The write had no effect, but the read may have delivered rows. The session plans the statement again
// and retries it.
var ErrStaleSchema = partition.ErrStaleSchema

// noReplica reports whether err means that no replica was available. If noReplica returns true, the request had no
// effect.
func noReplica(err error) bool {
	return errors.Is(err, errNoReplica) || errors.Is(err, partition.ErrClosed)
}

// isClientError reports whether clients receive err unchanged.
func isClientError(err error) bool {
	switch err.(type) { //nolint:errorlint // a wrapped client error is reported as a failure
	case *dberr.Invalid, *dberr.Overloaded, *dberr.Server, *dberr.Unavailable, *dberr.WriteTimeout, *dberr.WriteFailure,
		*dberr.ReadTimeout, *dberr.ReadFailure, *dberr.Truncate, *dberr.FunctionFailure, *dberr.Unauthorized,
		*dberr.Config:
		return true
	}
	return false
}

// nothingDone reports whether a client error means that the last attempt had no effect. An earlier attempt without a
// response may have been applied or may be applied later. For ErrUnknownTable, nothingDone returns false, because
// an attempt may have written data before the table was dropped.
func nothingDone(err error) bool {
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

// ErrUnknownTable is returned for a request whose table was dropped while the request was in flight. The error does not
// contain the table name, because the coordinator does not know the name.
var ErrUnknownTable error = &dberr.Invalid{Message: "unconfigured table"}

// writeError returns the error that a client receives for a failed write.
func (e *routedRequest) writeError(err error, kind string) error {
	if err == nil {
		return nil
	}
	return e.checkAnswer(e.writeAnswer(err, kind))
}

func (e *routedRequest) writeAnswer(err error, kind string) error {
	late := &dberr.WriteTimeout{Level: e.level, BlockFor: max(e.required, 1), WriteType: kind}
	switch {
	case errors.Is(err, ErrStaleSchema), overloaded(err):
		if e.maybeApplied {
			return late
		}
		if overloaded(err) {
			return err
		}
		return ErrStaleSchema
	case isClientError(err):
		if e.maybeApplied && nothingDone(err) {
			return late
		}
		return err
	case noReplica(err) && !e.maybeApplied:
		return &dberr.Unavailable{Level: e.level, Required: max(e.required, 1)}
	case timedOut(err):
		return late
	}
	if why, _ := classify(err); why != final {
		return late
	}
	return &dberr.WriteFailure{Level: e.level, BlockFor: max(e.required, 1), Failures: 1, WriteType: kind,
		Message: err.Error()}
}

// readError returns the error that a client receives for a failed read.
func (e *routedRequest) readError(err error, dataPresent bool) error {
	if err == nil {
		return nil
	}
	late := &dberr.ReadTimeout{Level: e.level, BlockFor: max(e.required, 1), DataPresent: dataPresent}
	switch {
	case isClientError(err) || errors.Is(err, ErrRepeat) || errors.Is(err, ErrStaleSchema):
		return err
	case noReplica(err):
		return &dberr.Unavailable{Level: e.level, Required: max(e.required, 1)}
	case timedOut(err):
		return late
	}
	if why, _ := classify(err); why != final {
		return late
	}
	return &dberr.ReadFailure{Level: e.level, BlockFor: max(e.required, 1), Failures: 1, DataPresent: dataPresent,
		Message: err.Error()}
}
