// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// failure is an error response.
type failure struct {
	status int
	// sub is the sub-status, or 0.
	sub     int
	message string
	// retryAfter is the retry delay. It is 0 if the response contains no delay.
	retryAfter time.Duration
	// charge is the charge of the failed request.
	charge ru.Units
}

func (f *failure) Error() string { return f.message }

// codes maps statuses to the codes in error bodies.
var codes = map[int]string{
	http.StatusBadRequest:            "BadRequest",
	http.StatusUnauthorized:          "Unauthorized",
	http.StatusForbidden:             "Forbidden",
	http.StatusNotFound:              "NotFound",
	http.StatusMethodNotAllowed:      "MethodNotAllowed",
	http.StatusRequestTimeout:        "RequestTimeout",
	http.StatusConflict:              "Conflict",
	http.StatusGone:                  "Gone",
	http.StatusPreconditionFailed:    "PreconditionFailed",
	http.StatusRequestEntityTooLarge: "RequestEntityTooLarge",
	http.StatusFailedDependency:      "FailedDependency",
	http.StatusTooManyRequests:       "TooManyRequests",
	449:                              "RetryWith",
	http.StatusInternalServerError:   "InternalServerError",
	http.StatusNotImplemented:        "NotImplemented",
	http.StatusServiceUnavailable:    "ServiceUnavailable",

	http.StatusExpectationFailed:           "ExpectationFailed",
	http.StatusRequestHeaderFieldsTooLarge: "RequestHeaderFieldsTooLarge",
	http.StatusHTTPVersionNotSupported:     "HTTPVersionNotSupported",
}

func badRequest(message string) *failure {
	return &failure{status: http.StatusBadRequest, message: message}
}

func unauthorized(message string) *failure {
	return &failure{status: http.StatusUnauthorized, message: message}
}

func notFound(message string) *failure {
	return &failure{status: http.StatusNotFound, message: message}
}

// body returns the JSON of the failure.
func (f *failure) body() []byte {
	b, err := json.Marshal(struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}{codes[f.status], f.message})
	if err != nil {
		return []byte("{}") // the encoding of two strings never fails
	}
	return b
}

// failureOf converts an error from the database to a response.
func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if e, ok := errors.AsType[*container.Error](err); ok {
		return &failure{status: e.Status, sub: e.SubStatus, message: e.Message, retryAfter: e.RetryAfter,
			charge: e.Charge}
	}
	if m, ok := errors.AsType[*httpwire.Malformed](err); ok {
		return &failure{status: m.Status, message: m.Message}
	}
	if e, ok := errors.AsType[*dberr.Overloaded](err); ok {
		wait := e.RetryAfter
		if wait <= 0 {
			wait = overloadWait
		}
		return &failure{status: http.StatusTooManyRequests, sub: container.SubThroughput, message: e.Message,
			retryAfter: wait}
	}
	status := http.StatusInternalServerError
	switch {
	case is[*dberr.Invalid](err), is[*dberr.Syntax](err), is[*dberr.Config](err), is[*dberr.Protocol](err):
		status = http.StatusBadRequest
	case is[*dberr.Unauthorized](err):
		status = http.StatusForbidden
	case is[*dberr.AlreadyExists](err):
		status = http.StatusConflict
	case is[*dberr.Unavailable](err):
		status = http.StatusServiceUnavailable
	case is[*dberr.ReadTimeout](err), is[*dberr.WriteTimeout](err), errors.Is(err, context.DeadlineExceeded):
		status = http.StatusRequestTimeout
	}
	return &failure{status: status, message: err.Error()}
}

// overloadWait is the retry delay after admission control has rejected a request.
const overloadWait = 100 * time.Millisecond

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
