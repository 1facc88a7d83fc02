// SPDX-License-Identifier: Apache-2.0

// Package dberr defines the errors that clients can see, independent of any protocol. Each protocol (CQL, HTTP) maps
// them to its own codes in one file. This package does not define internal errors. Internal errors are sentinel errors
// of the packages that return them.
package dberr

import (
	"fmt"
	"strings"
	"time"
)

// Consistency is a consistency level. Its value is the number in the CQL protocol.
type Consistency uint16

// These are the levels of the native protocol.
const (
	Any         Consistency = 0x0
	One         Consistency = 0x1
	Two         Consistency = 0x2
	Three       Consistency = 0x3
	Quorum      Consistency = 0x4
	All         Consistency = 0x5
	LocalQuorum Consistency = 0x6
	EachQuorum  Consistency = 0x7
	Serial      Consistency = 0x8
	LocalSerial Consistency = 0x9
	LocalOne    Consistency = 0xA
)

var consistencyNames = [...]string{"ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM",
	"SERIAL", "LOCAL_SERIAL", "LOCAL_ONE"}

// String returns the name in Cassandra's spelling.
func (c Consistency) String() string {
	if int(c) < len(consistencyNames) {
		return consistencyNames[c]
	}
	return fmt.Sprintf("CONSISTENCY(%d)", uint16(c))
}

// ParseConsistency returns the level with the given name. The case of the name does not matter.
func ParseConsistency(name string) (Consistency, bool) {
	for l := Any; l <= LocalOne; l++ {
		if strings.EqualFold(l.String(), name) {
			return l, true
		}
	}
	return 0, false
}

// IsSerial reports whether the level is SERIAL or LOCAL_SERIAL.
func (c Consistency) IsSerial() bool { return c == Serial || c == LocalSerial }

// OneReplica reports whether a read at the level needs only one replica, which may return slightly stale data.
func (c Consistency) OneReplica() bool { return c == One || c == LocalOne }

type (
	// Server is an internal failure that the client did not cause.
	Server struct{ Message string }
	// Protocol is a violation of the wire protocol.
	Protocol struct{ Message string }
	// BadCredentials is a rejected login.
	BadCredentials struct{ Message string }
	// Unauthorized is an operation that the user is not permitted to perform.
	Unauthorized struct{ Message string }
	// Syntax is a statement that cannot be parsed.
	Syntax struct{ Message string }
	// Invalid is an unsuitable value, or a statement that can be parsed but is not valid. Missing means that the
	// statement names a keyspace or table that does not exist.
	Invalid struct {
		Message string
		Missing bool
	}
	// Config is an invalid option of a keyspace or table.
	Config struct{ Message string }
	// AlreadyExists is an attempt to create an object that already exists. Table is empty for a keyspace.
	AlreadyExists struct{ Keyspace, Table, Message string }
	// Unprepared is an unknown ID of a prepared statement.
	Unprepared struct{ ID [16]byte }
	// Overloaded is a request that a limit or a throughput budget does not currently permit.
	Overloaded struct {
		Message    string
		RetryAfter time.Duration
	}
	// Unavailable means that too few replicas are alive. The request had no effect.
	Unavailable struct {
		Level           Consistency
		Required, Alive int
	}
	// WriteTimeout means that the outcome of a write is unknown.
	WriteTimeout struct {
		Level              Consistency
		Received, BlockFor int
		WriteType          string // SIMPLE, BATCH, UNLOGGED_BATCH, COUNTER, CAS
	}
	// ReadTimeout means that a read did not finish in time.
	ReadTimeout struct {
		Level              Consistency
		Received, BlockFor int
		DataPresent        bool
	}
	// ReadFailure means that a replica failed to read.
	ReadFailure struct {
		Level                        Consistency
		Received, BlockFor, Failures int
		DataPresent                  bool
		Message                      string
	}
	// WriteFailure means that a replica failed to write.
	WriteFailure struct {
		Level                        Consistency
		Received, BlockFor, Failures int
		WriteType                    string
		Message                      string
	}
	// Truncate is a failed TRUNCATE.
	Truncate struct{ Message string }
	// FunctionFailure is an error in a function that a statement called.
	FunctionFailure struct {
		Keyspace, Function string
		ArgTypes           []string
		Message            string
	}
)

func (e *Server) Error() string          { return e.Message }
func (e *Protocol) Error() string        { return e.Message }
func (e *BadCredentials) Error() string  { return e.Message }
func (e *Unauthorized) Error() string    { return e.Message }
func (e *Syntax) Error() string          { return e.Message }
func (e *Invalid) Error() string         { return e.Message }
func (e *Config) Error() string          { return e.Message }
func (e *AlreadyExists) Error() string   { return e.Message }
func (e *Overloaded) Error() string      { return e.Message }
func (e *Truncate) Error() string        { return e.Message }
func (e *FunctionFailure) Error() string { return e.Message }

func (e *Unprepared) Error() string {
	return fmt.Sprintf("Prepared query with ID %x not found (either the query was not prepared on this host (maybe "+
		"the host has been restarted?) or you have prepared too many queries and it has been evicted from the internal cache)", e.ID[:])
}

func (e *Unavailable) Error() string {
	return "Cannot achieve consistency level " + e.Level.String()
}

func (e *WriteTimeout) Error() string {
	return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
}

func (e *ReadTimeout) Error() string {
	return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
}

func (e *ReadFailure) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("Operation failed - received %d responses and %d failures", e.Received, e.Failures)
}

func (e *WriteFailure) Error() string {
	if e.Message != "" {
		return e.Message
	}
	return fmt.Sprintf("Operation failed - received %d responses and %d failures", e.Received, e.Failures)
}

// Invalidf returns an Invalid with a formatted message.
func Invalidf(format string, args ...any) error {
	return &Invalid{Message: fmt.Sprintf(format, args...)}
}

// Missingf returns an Invalid for a keyspace or table that does not exist.
func Missingf(format string, args ...any) error {
	return &Invalid{Message: fmt.Sprintf(format, args...), Missing: true}
}

// Syntaxf returns a Syntax with a formatted message.
func Syntaxf(format string, args ...any) error { return &Syntax{fmt.Sprintf(format, args...)} }

// Configf returns a Config with a formatted message.
func Configf(format string, args ...any) error { return &Config{fmt.Sprintf(format, args...)} }

// Serverf returns a Server with a formatted message.
func Serverf(format string, args ...any) error { return &Server{fmt.Sprintf(format, args...)} }

// Protocolf returns a Protocol with a formatted message.
func Protocolf(format string, args ...any) error { return &Protocol{fmt.Sprintf(format, args...)} }

// Unauthorizedf returns an Unauthorized with a formatted message.
func Unauthorizedf(format string, args ...any) error {
	return &Unauthorized{fmt.Sprintf(format, args...)}
}
