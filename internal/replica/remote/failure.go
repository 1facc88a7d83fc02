// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// The codes of errors on the wire; frozen. 0 is an error that is known by its text only.
const (
	codeText byte = iota
	codeNotLeader
	codeWrongRange
	codeStaleSchema
	codeUncertain
	codeUnderWay
	codeClosed
	codeUnconfirmed
	codeLatchTimeout
	codeConflict
	codeStopped
	codeDeadline

	codeServer       byte = 32 + iota - 12
	codeProtocol          // 33
	codeCredentials       // 34
	codeUnauthorized      // 35
	codeSyntax            // 36
	codeInvalid           // 37
	codeConfig            // 38
	codeExists            // 39
	codeUnprepared        // 40
	codeOverloaded        // 41
	codeUnavailable       // 42
	codeWriteTimeout      // 43
	codeReadTimeout       // 44
	codeReadFailure       // 45
	codeWriteFailure      // 46
	codeTruncate          // 47
	codeFunction          // 48
)

// Failure is an error of another node that has no type both nodes know. What happened there is not known more closely.
type Failure struct{ Text string }

func (e *Failure) Error() string { return e.Text }

// sentinels are the errors that are their code.
var sentinels = map[byte]error{
	codeStaleSchema: partition.ErrStaleSchema, codeUncertain: partition.ErrUncertain, codeUnderWay: partition.ErrUnderWay,
	codeClosed: partition.ErrClosed, codeUnconfirmed: partition.ErrUnconfirmed,
}

// AppendError appends the form of an error, which is not nil: its code, its text, and the values of its type.
func AppendError(dst []byte, err error) []byte {
	if b, ok := appendSignal(dst, err); ok {
		return b
	}
	if b, ok := appendAnswer(dst, err); ok {
		return b
	}
	return appendString(append(dst, codeText), err.Error())
}

func appendInt(dst []byte, v int) []byte { return binary.AppendUvarint(dst, uint64(max(v, 0))) }

// appendSignal knows the errors of package partition.
func appendSignal(dst []byte, err error) ([]byte, bool) {
	for code, e := range sentinels {
		if errors.Is(err, e) {
			return append(dst, code), true
		}
	}
	if e, ok := errors.AsType[*partition.NotLeader](err); ok {
		dst = binary.AppendUvarint(append(dst, codeNotLeader), uint64(e.Partition))
		return append(dst, e.Leader[:]...), true
	}
	if e, ok := errors.AsType[*partition.WrongRange](err); ok {
		dst = binary.AppendUvarint(append(dst, codeWrongRange), uint64(e.Partition))
		dst = appendPosition(appendPosition(dst, e.Have.Begin), e.Have.Limit)
		return binary.AppendUvarint(binary.AppendUvarint(dst, e.Epoch), uint64(e.Moved)), true
	}
	if e, ok := errors.AsType[*partition.LatchTimeout](err); ok {
		cause := "?"
		if e.Cause != nil {
			cause = e.Cause.Error()
		}
		return appendString(append(dst, codeLatchTimeout), cause), true
	}
	if e, ok := errors.AsType[*partition.Conflict](err); ok {
		return binary.AppendUvarint(append(dst, codeConflict), e.Version), true
	}
	switch {
	case errors.Is(err, partition.ErrStopped):
		return appendString(append(dst, codeStopped), err.Error()), true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return append(dst, codeDeadline), true
	}
	return dst, false
}

// appendAnswer knows the errors that clients see. An error that wraps one is told as text: it says more than the one.
func appendAnswer(dst []byte, err error) ([]byte, bool) {
	switch e := err.(type) { //nolint:errorlint // see above
	case *dberr.Server:
		return appendString(append(dst, codeServer), e.Message), true
	case *dberr.Protocol:
		return appendString(append(dst, codeProtocol), e.Message), true
	case *dberr.BadCredentials:
		return appendString(append(dst, codeCredentials), e.Message), true
	case *dberr.Unauthorized:
		return appendString(append(dst, codeUnauthorized), e.Message), true
	case *dberr.Syntax:
		return appendString(append(dst, codeSyntax), e.Message), true
	case *dberr.Invalid:
		return appendString(append(dst, codeInvalid), e.Message), true
	case *dberr.Config:
		return appendString(append(dst, codeConfig), e.Message), true
	case *dberr.Truncate:
		return appendString(append(dst, codeTruncate), e.Message), true
	case *dberr.AlreadyExists:
		return appendString(appendString(appendString(append(dst, codeExists), e.Keyspace), e.Table), e.Message), true
	case *dberr.Unprepared:
		return append(append(dst, codeUnprepared), e.ID[:]...), true
	case *dberr.Overloaded:
		return appendString(appendInt(append(dst, codeOverloaded), int(e.RetryAfter)), e.Message), true
	case *dberr.Unavailable:
		return appendInt(appendInt(appendInt(append(dst, codeUnavailable), int(e.Level)), e.Required), e.Alive), true
	case *dberr.WriteTimeout:
		dst = appendInt(appendInt(appendInt(append(dst, codeWriteTimeout), int(e.Level)), e.Received), e.BlockFor)
		return appendString(dst, e.WriteType), true
	case *dberr.ReadTimeout:
		dst = appendInt(appendInt(appendInt(append(dst, codeReadTimeout), int(e.Level)), e.Received), e.BlockFor)
		return append(dst, boolByte(e.DataPresent)), true
	case *dberr.ReadFailure:
		dst = appendInt(appendInt(appendInt(appendInt(append(dst, codeReadFailure), int(e.Level)), e.Received), e.BlockFor), e.Failures)
		return appendString(append(dst, boolByte(e.DataPresent)), e.Message), true
	case *dberr.WriteFailure:
		dst = appendInt(appendInt(appendInt(appendInt(append(dst, codeWriteFailure), int(e.Level)), e.Received), e.BlockFor), e.Failures)
		return appendString(appendString(dst, e.WriteType), e.Message), true
	case *dberr.FunctionFailure:
		dst = appendString(appendString(append(dst, codeFunction), e.Keyspace), e.Function)
		dst = appendInt(dst, len(e.ArgTypes))
		for _, t := range e.ArgTypes {
			dst = appendString(dst, t)
		}
		return appendString(dst, e.Message), true
	}
	return dst, false
}

func boolByte(v bool) byte {
	if v {
		return 1
	}
	return 0
}

func appendPosition(dst []byte, p topology.Position) []byte {
	return appendBytes(binary.BigEndian.AppendUint64(dst, p.Ring), p.Key)
}

func (r *reader) position() topology.Position {
	var p topology.Position
	if ring := r.take(8); ring != nil {
		p.Ring = binary.BigEndian.Uint64(ring)
	}
	if key := r.bytes(); len(key) > 0 {
		p.Key = append([]byte(nil), key...)
	}
	return p
}

// stopped is ErrStopped with the text of the other node.
type stopped struct{ text string }

func (e *stopped) Error() string { return e.text }
func (e *stopped) Unwrap() error { return partition.ErrStopped }

// latchCause is why a LatchTimeout of another node happened.
type latchCause struct{ text string }

func (e *latchCause) Error() string { return e.text }

// DecodeError reads what AppendError wrote and returns the error, or ErrMalformed for what is none. A code of a newer node is a *Failure.
func DecodeError(src []byte) error {
	r := reader{b: src}
	err := r.failure()
	if r.end() != nil {
		return r.err
	}
	return err
}

// failure takes an error off.
func (r *reader) failure() error {
	code := r.byte()
	if e := sentinels[code]; e != nil {
		return e
	}
	switch code {
	case codeText:
		return &Failure{r.string()}
	case codeNotLeader:
		return &partition.NotLeader{Partition: topology.PartitionID(r.uint()), Leader: r.node()}
	case codeWrongRange:
		e := &partition.WrongRange{Partition: topology.PartitionID(r.uint())}
		e.Have.Begin, e.Have.Limit = r.position(), r.position()
		e.Epoch, e.Moved = r.uint(), topology.PartitionID(r.uint())
		return e
	case codeLatchTimeout:
		return &partition.LatchTimeout{Cause: &latchCause{r.string()}}
	case codeConflict:
		return &partition.Conflict{Version: r.uint()}
	case codeStopped:
		return &stopped{r.string()}
	case codeDeadline:
		return partition.ErrUncertain
	}
	return r.answer(code)
}

// answer takes an error off that clients see.
func (r *reader) answer(code byte) error {
	switch code {
	case codeServer:
		return &dberr.Server{Message: r.string()}
	case codeProtocol:
		return &dberr.Protocol{Message: r.string()}
	case codeCredentials:
		return &dberr.BadCredentials{Message: r.string()}
	case codeUnauthorized:
		return &dberr.Unauthorized{Message: r.string()}
	case codeSyntax:
		return &dberr.Syntax{Message: r.string()}
	case codeInvalid:
		return &dberr.Invalid{Message: r.string()}
	case codeConfig:
		return &dberr.Config{Message: r.string()}
	case codeTruncate:
		return &dberr.Truncate{Message: r.string()}
	case codeExists:
		return &dberr.AlreadyExists{Keyspace: r.string(), Table: r.string(), Message: r.string()}
	case codeUnprepared:
		return &dberr.Unprepared{ID: r.node()}
	case codeOverloaded:
		return &dberr.Overloaded{RetryAfter: time.Duration(r.uint() & (1<<62 - 1)), Message: r.string()}
	case codeUnavailable:
		return &dberr.Unavailable{Level: r.level(), Required: r.small(), Alive: r.small()}
	case codeWriteTimeout:
		return &dberr.WriteTimeout{Level: r.level(), Received: r.small(), BlockFor: r.small(), WriteType: r.string()}
	case codeReadTimeout:
		return &dberr.ReadTimeout{Level: r.level(), Received: r.small(), BlockFor: r.small(), DataPresent: r.byte() == 1}
	case codeReadFailure:
		return &dberr.ReadFailure{Level: r.level(), Received: r.small(), BlockFor: r.small(), Failures: r.small(), DataPresent: r.byte() == 1, Message: r.string()}
	case codeWriteFailure:
		return &dberr.WriteFailure{Level: r.level(), Received: r.small(), BlockFor: r.small(), Failures: r.small(), WriteType: r.string(), Message: r.string()}
	case codeFunction:
		e := &dberr.FunctionFailure{Keyspace: r.string(), Function: r.string()}
		for range r.count(1) {
			e.ArgTypes = append(e.ArgTypes, r.string())
		}
		e.Message = r.string()
		return e
	}
	r.b = nil
	return &Failure{"an error that only a newer version knows"}
}

func (r *reader) level() dberr.Consistency { return dberr.Consistency(r.uint()) }
