// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// Error is a failure that is reported to container clients.
type Error struct {
	// Status is an HTTP status. SubStatus is a Cosmos DB sub-status, or 0.
	Status, SubStatus int
	// Code is the name of the status, such as NotFound, Conflict, or PreconditionFailed.
	Code, Message string
	// RetryAfter is the delay after which the client should retry. It is 0 if a retry cannot succeed.
	RetryAfter time.Duration
	// Charge is the cost of the failed request.
	Charge ru.Units
	// Cause is the underlying error of another package, or nil.
	Cause error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// These are sub-statuses of Cosmos DB.
const (
	SubKeyMismatch  = 1001 // status 400: the body has a different partition key
	SubOtherRID     = 1024 // status 400: the container was dropped and re-created
	SubRangeGone    = 1002 // status 410: the physical partition no longer exists
	SubOwnerMissing = 1003 // status 404: the parent resource does not exist
	SubFull         = 1014 // status 403: the logical partition is full
	SubThroughput   = 3200 // status 429: the request exceeds the throughput
)

// codes maps a status to its name.
var codes = map[int]string{
	304: "NotModified", 400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
	408: "RequestTimeout", 409: "Conflict", 410: "Gone", 412: "PreconditionFailed", 413: "RequestEntityTooLarge",
	424: "FailedDependency", 429: "TooManyRequests", 449: "RetryWith", 500: "InternalServerError",
	503: "ServiceUnavailable",
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an error with a status, a sub-status, and a formatted message.
func Errorf(status, sub int, format string, args ...any) *Error {
	return &Error{Status: status, SubStatus: sub, Code: codes[status], Message: fmt.Sprintf(format, args...)}
}

// StatusOf returns the status of an error of this package, or 500 for any other error.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 500
}

// refused converts an error of another package to a client error.
func refused(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*dberr.Overloaded](err); ok {
		out := Errorf(503, 0, "%v", e)
		if e.RetryAfter > 0 {
			out = Errorf(429, SubThroughput, "%v", e)
			out.RetryAfter = e.RetryAfter
		}
		out.Cause = err
		return out
	}
	status, sub := 500, 0
	switch {
	case is[*dberr.Invalid](err) && strings.Contains(err.Error(), partition.SizeLimitText):
		status, sub = 403, SubFull
	case errors.Is(err, coordinator.ErrUnknownTable):
		status, sub = 404, SubOwnerMissing
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), is[*dberr.ReadTimeout](err),
		is[*dberr.WriteTimeout](err), is[*dberr.Invalid](err) && strings.Contains(err.Error(), partition.TooLongText):
		status = 408
	case is[*dberr.Unavailable](err), is[*dberr.ReadFailure](err), is[*dberr.WriteFailure](err),
		errors.Is(err, coordinator.ErrRepeat), errors.Is(err, coordinator.ErrStaleSchema):
		status = 503
	case is[*dberr.Invalid](err), is[*dberr.Config](err), is[*dberr.Syntax](err):
		status = 400
	case is[*dberr.AlreadyExists](err):
		status = 409
	case is[*dberr.Unauthorized](err):
		status = 403
	}
	out := Errorf(status, sub, "%v", err)
	out.Cause = err
	return out
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
