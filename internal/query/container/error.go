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

// Error is why something was not done, as clients of containers are told.
type Error struct {
	// Status is one of HTTP, SubStatus of Cosmos DB, 0 if there is none.
	Status, SubStatus int
	// Code is the word of the status: NotFound, Conflict, PreconditionFailed and so on.
	Code, Message string
	// RetryAfter is how long to wait before the request is sent again, 0 where that is of no use.
	RetryAfter time.Duration
	// Charge is what finding it out has cost.
	Charge ru.Units
	// Cause is the error of the house that it tells of, nil where it is of containers alone.
	Cause error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// The sub-statuses.
const (
	SubKeyMismatch  = 1001 // of 400: the partition key of the body is another one
	SubNotServable  = 1004 // of 400: the query needs a partition key or leave to cross partitions
	SubOtherRID     = 1024 // of 400: the container was dropped and made again
	SubRangeGone    = 1002 // of 410
	SubOwnerMissing = 1003 // of 404: what the resource would be in is not there
	SubFull         = 1014 // of 403: the logical partition is full
	SubThroughput   = 3200 // of 429
)

// codes are the words of statuses.
var codes = map[int]string{
	304: "NotModified", 400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
	408: "RequestTimeout", 409: "Conflict", 410: "Gone", 412: "PreconditionFailed", 413: "RequestEntityTooLarge",
	424: "FailedDependency", 429: "TooManyRequests", 449: "RetryWith", 500: "InternalServerError",
	503: "ServiceUnavailable",
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an error of a status.
func Errorf(status, sub int, format string, args ...any) *Error {
	return &Error{Status: status, SubStatus: sub, Code: codes[status], Message: fmt.Sprintf(format, args...)}
}

// StatusOf is the status of an error of this package, 500 for any other one.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 500
}

// refused is what a client is told of an error of the house.
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
