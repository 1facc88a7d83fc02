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

// These are the error codes on the wire. They must not change. Code 0 represents an error of unknown type, which is
// sent as text. If dberr.CodeOf returns a code for an error, this code is sent.
const (
	codeText byte = iota
	codeNotLeader
	codeWrongRange
	codeStaleSchema
	codeUncertain
	codeInProgress
	codeClosed
	codeUnconfirmed
	codeLatchTimeout
	codeConflict
	codeStopped
	codeDeadline
	codeDedupeUnknown

	codeExists       byte = 39
	codeUnprepared   byte = 40
	codeOverloaded   byte = 41
	codeUnavailable  byte = 42
	codeWriteTimeout byte = 43
	codeReadTimeout  byte = 44
	codeReadFailure  byte = 45
	codeWriteFailure byte = 46
	codeFunction     byte = 48
)

// Failure is an error from another node whose type is not known to both nodes. The effect of the request is unknown.
type Failure struct{ Text string }

func (e *Failure) Error() string { return e.Text }

// sentinels maps codes to errors that have no fields.
var sentinels = map[byte]error{
	codeStaleSchema: partition.ErrStaleSchema, codeUncertain: partition.ErrUncertain,
	codeInProgress: partition.ErrInProgress,
	codeClosed:     partition.ErrClosed, codeUnconfirmed: partition.ErrUnconfirmed,
}

// AppendError encodes an error as its code, its text, and its fields. The error must not be nil.
func AppendError(dst []byte, err error) []byte {
	if b, ok := appendPartitionError(dst, err); ok {
		return b
	}
	if b, ok := appendClientError(dst, err); ok {
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

// appendPartitionError encodes errors of package partition.
func appendPartitionError(dst []byte, err error) ([]byte, bool) {
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
	if e, ok := errors.AsType[*partition.DedupeUnknown](err); ok {
		return binary.AppendUvarint(append(dst, codeDedupeUnknown), e.Epoch), true
	}
	switch {
	case errors.Is(err, partition.ErrStopped):
		return appendTexts(append(dst, codeStopped), err.Error()), true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return append(dst, codeDeadline), true
	}
	return dst, false
}

// appendClientError encodes errors that clients see. An error that wraps a client error is sent as text, because it
// contains more information.
func appendClientError(dst []byte, err error) ([]byte, bool) {
	if code := dberr.CodeOf(err); code != 0 {
		return appendTexts(append(dst, code), err.Error()), true
	}
	switch e := err.(type) { //nolint:errorlint // see above
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

// stopped is ErrStopped with the text that the other node has sent.
type stopped struct{ text string }

func (e *stopped) Error() string { return e.text }
func (e *stopped) Unwrap() error { return partition.ErrStopped }

// latchCause is the cause of a LatchTimeout on another node.
type latchCause struct{ text string }

func (e *latchCause) Error() string { return e.text }

// DecodeError decodes the output of AppendError. It returns ErrMalformed if the bytes are invalid. It decodes an
// unknown code from a newer node as a *Failure.
func DecodeError(src []byte) error {
	r := newReader(src)
	err := r.failure()
	if e := r.End(); e != nil {
		return e
	}
	return err
}

// failure decodes an error.
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
	case codeDedupeUnknown:
		return &partition.DedupeUnknown{Epoch: r.Uint()}
	}
	return r.clientError(code)
}

// clientError decodes an error that clients see.
func (r *reader) clientError(code byte) error {
	switch code {
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
	if dberr.WithCode(code, "") != nil {
		return dberr.WithCode(code, r.Text())
	}
	r.Take(uint64(len(r.Rest())))
	return &Failure{"unknown error from a newer version"}
}

func (r *reader) level() dberr.Consistency { return dberr.Consistency(r.Uint()) }
