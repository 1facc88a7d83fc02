// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
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
	codeForgotten

	codeServer       byte = 32 + iota - 13
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
	codeStaleSchema: partition.ErrStaleSchema, codeUncertain: partition.ErrUncertain,
	codeUnderWay: partition.ErrUnderWay,
	codeClosed:   partition.ErrClosed, codeUnconfirmed: partition.ErrUnconfirmed,
}

// AppendError appends the form of an error, which is not nil: its code, its text, and the values of its type.
func AppendError(dst []byte, err error) []byte {
	if b, ok := appendSignal(dst, err); ok {
		return b
	}
	if b, ok := appendAnswer(dst, err); ok {
		return b
	}
	return appendTexts(append(dst, codeText), err.Error())
}

func appendTexts(dst []byte, texts ...string) []byte {
	for _, t := range texts {
		dst = codec.AppendText(dst, t)
	}
	return dst
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
		return appendTexts(append(dst, codeLatchTimeout), cause), true
	}
	if e, ok := errors.AsType[*partition.Conflict](err); ok {
		return binary.AppendUvarint(append(dst, codeConflict), e.Version), true
	}
	if e, ok := errors.AsType[*partition.Forgotten](err); ok {
		return binary.AppendUvarint(append(dst, codeForgotten), e.Memory), true
	}
	switch {
	case errors.Is(err, partition.ErrStopped):
		return appendTexts(append(dst, codeStopped), err.Error()), true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return append(dst, codeDeadline), true
	}
	return dst, false
}

// appendAnswer knows the errors that clients see. An error that wraps one is told as text: it says more than the one.
func appendAnswer(dst []byte, err error) ([]byte, bool) {
	switch e := err.(type) { //nolint:errorlint // see above
	case *dberr.Server:
		return appendTexts(append(dst, codeServer), e.Message), true
	case *dberr.Protocol:
		return appendTexts(append(dst, codeProtocol), e.Message), true
	case *dberr.BadCredentials:
		return appendTexts(append(dst, codeCredentials), e.Message), true
	case *dberr.Unauthorized:
		return appendTexts(append(dst, codeUnauthorized), e.Message), true
	case *dberr.Syntax:
		return appendTexts(append(dst, codeSyntax), e.Message), true
	case *dberr.Invalid:
		return appendTexts(append(dst, codeInvalid), e.Message), true
	case *dberr.Config:
		return appendTexts(append(dst, codeConfig), e.Message), true
	case *dberr.Truncate:
		return appendTexts(append(dst, codeTruncate), e.Message), true
	case *dberr.AlreadyExists:
		return appendTexts(append(dst, codeExists), e.Keyspace, e.Table, e.Message), true
	case *dberr.Unprepared:
		return append(append(dst, codeUnprepared), e.ID[:]...), true
	case *dberr.Overloaded:
		return appendTexts(appendInt(append(dst, codeOverloaded), int(e.RetryAfter)), e.Message), true
	case *dberr.Unavailable:
		return appendInt(appendInt(appendInt(append(dst, codeUnavailable), int(e.Level)), e.Required), e.Alive), true
	case *dberr.WriteTimeout:
		dst = appendInt(appendInt(appendInt(append(dst, codeWriteTimeout), int(e.Level)), e.Received), e.BlockFor)
		return appendTexts(dst, e.WriteType), true
	case *dberr.ReadTimeout:
		dst = appendInt(appendInt(appendInt(append(dst, codeReadTimeout), int(e.Level)), e.Received), e.BlockFor)
		return append(dst, codec.Bit(e.DataPresent)), true
	case *dberr.ReadFailure:
		dst = appendInt(appendInt(appendInt(appendInt(append(dst, codeReadFailure), int(e.Level)), e.Received),
			e.BlockFor), e.Failures)
		return appendTexts(append(dst, codec.Bit(e.DataPresent)), e.Message), true
	case *dberr.WriteFailure:
		dst = appendInt(appendInt(appendInt(appendInt(append(dst, codeWriteFailure), int(e.Level)), e.Received),
			e.BlockFor), e.Failures)
		return appendTexts(dst, e.WriteType, e.Message), true
	case *dberr.FunctionFailure:
		dst = appendTexts(append(dst, codeFunction), e.Keyspace, e.Function)
		dst = appendTexts(appendInt(dst, len(e.ArgTypes)), e.ArgTypes...)
		return appendTexts(dst, e.Message), true
	}
	return dst, false
}

func appendPosition(dst []byte, p topology.Position) []byte {
	dst = binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, p.Ring), p.Low)
	return codec.AppendBytes(dst, p.Key)
}

func (r *reader) position() topology.Position {
	return topology.Position{Ring: r.Fixed(), Low: r.Uint(), Key: append([]byte(nil), r.Bytes()...)}
}

// stopped is ErrStopped with the text of the other node.
type stopped struct{ text string }

func (e *stopped) Error() string { return e.text }
func (e *stopped) Unwrap() error { return partition.ErrStopped }

// latchCause is why a LatchTimeout of another node happened.
type latchCause struct{ text string }

func (e *latchCause) Error() string { return e.text }

// DecodeError reads what AppendError wrote and returns the error, or ErrMalformed for what is none. A code of a newer
// node is a *Failure.
func DecodeError(src []byte) error {
	r := newReader(src)
	err := r.failure()
	if e := r.End(); e != nil {
		return e
	}
	return err
}

// failure takes an error off.
func (r *reader) failure() error {
	code := r.Byte()
	if e := sentinels[code]; e != nil {
		return e
	}
	switch code {
	case codeText:
		return &Failure{r.Text()}
	case codeNotLeader:
		return &partition.NotLeader{Partition: topology.PartitionID(r.Uint()), Leader: r.node()}
	case codeWrongRange:
		e := &partition.WrongRange{Partition: topology.PartitionID(r.Uint())}
		e.Have.Begin, e.Have.Limit = r.position(), r.position()
		e.Epoch, e.Moved = r.Uint(), topology.PartitionID(r.Uint())
		return e
	case codeLatchTimeout:
		return &partition.LatchTimeout{Cause: &latchCause{r.Text()}}
	case codeConflict:
		return &partition.Conflict{Version: r.Uint()}
	case codeStopped:
		return &stopped{r.Text()}
	case codeDeadline:
		return partition.ErrUncertain
	case codeForgotten:
		return &partition.Forgotten{Memory: r.Uint()}
	}
	return r.answer(code)
}

// answer takes an error off that clients see.
func (r *reader) answer(code byte) error {
	switch code {
	case codeServer:
		return &dberr.Server{Message: r.Text()}
	case codeProtocol:
		return &dberr.Protocol{Message: r.Text()}
	case codeCredentials:
		return &dberr.BadCredentials{Message: r.Text()}
	case codeUnauthorized:
		return &dberr.Unauthorized{Message: r.Text()}
	case codeSyntax:
		return &dberr.Syntax{Message: r.Text()}
	case codeInvalid:
		return &dberr.Invalid{Message: r.Text()}
	case codeConfig:
		return &dberr.Config{Message: r.Text()}
	case codeTruncate:
		return &dberr.Truncate{Message: r.Text()}
	case codeExists:
		return &dberr.AlreadyExists{Keyspace: r.Text(), Table: r.Text(), Message: r.Text()}
	case codeUnprepared:
		return &dberr.Unprepared{ID: r.node()}
	case codeOverloaded:
		return &dberr.Overloaded{RetryAfter: time.Duration(r.Uint() & (1<<62 - 1)), Message: r.Text()}
	case codeUnavailable:
		return &dberr.Unavailable{Level: r.level(), Required: r.small(), Alive: r.small()}
	case codeWriteTimeout:
		return &dberr.WriteTimeout{Level: r.level(), Received: r.small(), BlockFor: r.small(), WriteType: r.Text()}
	case codeReadTimeout:
		return &dberr.ReadTimeout{Level: r.level(), Received: r.small(), BlockFor: r.small(),
			DataPresent: r.Byte() == 1}
	case codeReadFailure:
		return &dberr.ReadFailure{Level: r.level(), Received: r.small(), BlockFor: r.small(), Failures: r.small(),
			DataPresent: r.Byte() == 1, Message: r.Text()}
	case codeWriteFailure:
		return &dberr.WriteFailure{Level: r.level(), Received: r.small(), BlockFor: r.small(), Failures: r.small(),
			WriteType: r.Text(), Message: r.Text()}
	case codeFunction:
		e := &dberr.FunctionFailure{Keyspace: r.Text(), Function: r.Text()}
		for range r.Count(1) {
			e.ArgTypes = append(e.ArgTypes, r.Text())
		}
		e.Message = r.Text()
		return e
	}
	r.Take(uint64(len(r.Rest())))
	return &Failure{"an error that only a newer version knows"}
}

func (r *reader) level() dberr.Consistency { return dberr.Consistency(r.Uint()) }
