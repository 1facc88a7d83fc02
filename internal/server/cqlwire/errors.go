// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"errors"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// ErrorCode is the code of an ERROR.
type ErrorCode int32

// These are the error codes.
const (
	CodeServer          ErrorCode = 0x0000
	CodeProtocol        ErrorCode = 0x000A
	CodeBadCredentials  ErrorCode = 0x0100
	CodeUnavailable     ErrorCode = 0x1000
	CodeOverloaded      ErrorCode = 0x1001
	CodeBootstrapping   ErrorCode = 0x1002
	CodeTruncate        ErrorCode = 0x1003
	CodeWriteTimeout    ErrorCode = 0x1100
	CodeReadTimeout     ErrorCode = 0x1200
	CodeReadFailure     ErrorCode = 0x1300
	CodeFunctionFailure ErrorCode = 0x1400
	CodeWriteFailure    ErrorCode = 0x1500
	CodeSyntax          ErrorCode = 0x2000
	CodeUnauthorized    ErrorCode = 0x2100
	CodeInvalid         ErrorCode = 0x2200
	CodeConfig          ErrorCode = 0x2300
	CodeAlreadyExists   ErrorCode = 0x2400
	CodeUnprepared      ErrorCode = 0x2500
)

// AppendError appends the body of ERROR for err. No other code maps errors to codes. An error that is not defined in
// package dberr becomes a server error with its text.
func AppendError(dst []byte, version uint8, err error) []byte {
	if dst, ok := appendPlainError(dst, err); ok {
		return dst
	}
	if e, ok := errors.AsType[*dberr.Unavailable](err); ok {
		dst = appendErrorHead(dst, CodeUnavailable, e)
		return appendI32(appendI32(appendU16(dst, uint16(e.Level)), int32(e.Required)), int32(e.Alive))
	}
	if e, ok := errors.AsType[*dberr.WriteTimeout](err); ok {
		return appendWriteTimeout(dst, version, e)
	}
	if e, ok := errors.AsType[*dberr.ReadTimeout](err); ok {
		dst = appendErrorHead(dst, CodeReadTimeout, e)
		return appendBool(appendResponses(dst, e.Level, e.Received, e.BlockFor), e.DataPresent)
	}
	if e, ok := errors.AsType[*dberr.ReadFailure](err); ok {
		code := CodeReadFailure
		if version < V4 {
			code = CodeReadTimeout
		}
		dst = appendResponses(appendErrorHead(dst, code, e), e.Level, e.Received, e.BlockFor)
		return appendBool(appendFailures(dst, version, e.Failures), e.DataPresent)
	}
	if e, ok := errors.AsType[*dberr.WriteFailure](err); ok {
		code := CodeWriteFailure
		if version < V4 {
			code = CodeWriteTimeout
		}
		dst = appendResponses(appendErrorHead(dst, code, e), e.Level, e.Received, e.BlockFor)
		return appendString(appendFailures(dst, version, e.Failures), e.WriteType)
	}
	if e, ok := errors.AsType[*dberr.FunctionFailure](err); ok {
		if version < V4 {
			return appendErrorHead(dst, CodeInvalid, e)
		}
		dst = appendErrorHead(dst, CodeFunctionFailure, e)
		return appendStringList(appendString(appendString(dst, e.Keyspace), e.Function), e.ArgTypes)
	}
	if e, ok := errors.AsType[*dberr.AlreadyExists](err); ok {
		dst = appendErrorHead(dst, CodeAlreadyExists, e)
		return appendString(appendString(dst, e.Keyspace), e.Table)
	}
	if e, ok := errors.AsType[*dberr.Unprepared](err); ok {
		return appendString(appendErrorHead(dst, CodeUnprepared, e), e.ID[:])
	}
	return appendErrorHead(dst, CodeServer, err)
}

// appendPlainError appends errors that consist of a code and a text.
func appendPlainError(dst []byte, err error) ([]byte, bool) {
	for e := err; e != nil; e = errors.Unwrap(e) {
		var code ErrorCode
		switch e.(type) { //nolint:errorlint // the loop unwraps
		case *dberr.Server:
			code = CodeServer
		case *dberr.Protocol:
			code = CodeProtocol
		case *dberr.BadCredentials:
			code = CodeBadCredentials
		case *dberr.Unauthorized:
			code = CodeUnauthorized
		case *dberr.Syntax:
			code = CodeSyntax
		case *dberr.Invalid:
			code = CodeInvalid
		case *dberr.Config:
			code = CodeConfig
		case *dberr.Overloaded:
			code = CodeOverloaded
		case *dberr.Truncate:
			code = CodeTruncate
		default:
			continue
		}
		// The client receives the text of the dberr error. The texts of wrapping errors are for logs.
		return appendErrorHead(dst, code, e), true
	}
	return dst, false
}

// AppendUnprepared appends the body of ERROR for a prepared statement ID whose length is not 16 bytes. This server
// cannot have issued such an ID.
func AppendUnprepared(dst []byte, id []byte) []byte {
	var e dberr.Unprepared
	copy(e.ID[:], id)
	return appendString(appendErrorHead(dst, CodeUnprepared, &e), id)
}

func appendErrorHead(dst []byte, code ErrorCode, err error) []byte {
	return appendString(appendI32(dst, int32(code)), err.Error())
}

func appendResponses(dst []byte, level dberr.Consistency, received, blockFor int) []byte {
	return appendI32(appendI32(appendU16(dst, uint16(level)), int32(received)), int32(blockFor))
}

func appendWriteTimeout(dst []byte, version uint8, e *dberr.WriteTimeout) []byte {
	dst = appendResponses(appendErrorHead(dst, CodeWriteTimeout, e), e.Level, e.Received, e.BlockFor)
	dst = appendString(dst, e.WriteType)
	if version >= V5 && e.WriteType == "CAS" {
		dst = appendU16(dst, 0) // conditional writes queue at the leader, so the number of contentions is 0
	}
	return dst
}

// appendFailures appends the failures of an operation. In version 3, which reports timeouts instead, it appends
// nothing. In version 4, it appends the number of failures. In version 5, it appends the reason for each address. The
// addresses are unknown here, so appendFailures encodes them as 0.0.0.0, 0.0.0.1, and so on. The reason is 0
// (unknown). The count of failures is therefore correct.
func appendFailures(dst []byte, version uint8, n int) []byte {
	if version < V4 {
		return dst
	}
	dst = appendI32(dst, int32(n))
	if version < V5 {
		return dst
	}
	for i := range n {
		dst = appendInet(dst, netip.AddrFrom4([4]byte{0, 0, byte(i >> 8), byte(i)}))
		dst = appendU16(dst, 0)
	}
	return dst
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}
