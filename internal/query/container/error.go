// SPDX-License-Identifier: Apache-2.0

package container

import (
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/ru"
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
