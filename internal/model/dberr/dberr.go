// SPDX-License-Identifier: Apache-2.0

// Package dberr holds the errors a client can see, free of any protocol. Each door (CQL, HTTP) maps them to its own
// codes in one file. Signals between neighbouring packages are not here: they are sentinels of the package that raises
// them.
package dberr

import (
	"fmt"
	"strings"
	"time"
)

// Consistency is a consistency level by its CQL wire number.
type Consistency uint16

// The levels of the native protocol.
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

// String returns the name as Cassandra writes it.
func (c Consistency) String() string {
	if int(c) < len(consistencyNames) {
		return consistencyNames[c]
	}
	return fmt.Sprintf("CONSISTENCY(%d)", uint16(c))
}

// ParseConsistency finds a level by its name, in any case.
func ParseConsistency(name string) (Consistency, bool) {
	for l := Any; l <= LocalOne; l++ {
		if strings.EqualFold(l.String(), name) {
			return l, true
		}
	}
	return 0, false
}

// IsSerial reports whether the level is one of the two serial ones.
func (c Consistency) IsSerial() bool { return c == Serial || c == LocalSerial }

// OneReplica reports whether a read at the level is content with what one replica knows, which may be a little old.
func (c Consistency) OneReplica() bool { return c == One || c == LocalOne }

// Local reports whether the level is one within a data centre.
func (c Consistency) Local() bool { return c == LocalOne || c == LocalQuorum || c == LocalSerial }

type (
	// Server is a defect or an internal failure: nothing the client did.
	Server struct{ Message string }
	// Protocol is a violation of the wire protocol.
	Protocol struct{ Message string }
	// BadCredentials refuses a login.
	BadCredentials struct{ Message string }
	// Unauthorized refuses an operation to a user.
	Unauthorized struct{ Message string }
	// Syntax is a statement that does not parse.
	Syntax struct{ Message string }
	// Invalid is a statement that parses but makes no sense, or a value that does not fit. Missing says that it names a
	// keyspace or a table that does not exist.
	Invalid struct {
		Message string
		Missing bool
	}
	// Config is an invalid option of a keyspace or table.
	Config struct{ Message string }
	// AlreadyExists refuses to create what exists; Table is empty for a keyspace.
	AlreadyExists struct{ Keyspace, Table, Message string }
	// Unprepared is an unknown prepared statement id.
	Unprepared struct{ ID [16]byte }
	// Overloaded refuses a request that a bound or a throughput budget does not admit now.
	Overloaded struct {
		Message    string
		RetryAfter time.Duration
	}
	// Unavailable says that too few replicas are alive; nothing was done.
	Unavailable struct {
		Level           Consistency
		Required, Alive int
	}
	// WriteTimeout says that the outcome of a write is unknown.
	WriteTimeout struct {
		Level              Consistency
		Received, BlockFor int
		WriteType          string // SIMPLE, BATCH, UNLOGGED_BATCH, COUNTER, CAS
	}
	// ReadTimeout says that a read did not finish in time.
	ReadTimeout struct {
		Level              Consistency
		Received, BlockFor int
		DataPresent        bool
	}
	// ReadFailure says that a replica failed to read.
	ReadFailure struct {
		Level                        Consistency
		Received, BlockFor, Failures int
		DataPresent                  bool
		Message                      string
	}
	// WriteFailure says that a replica failed to write.
	WriteFailure struct {
		Level                        Consistency
		Received, BlockFor, Failures int
		WriteType                    string
		Message                      string
	}
	// Truncate says that a TRUNCATE failed.
	Truncate struct{ Message string }
	// FunctionFailure is an error inside a function called by a statement.
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

// Invalidf makes an Invalid.
func Invalidf(format string, args ...any) error {
	return &Invalid{Message: fmt.Sprintf(format, args...)}
}

// Missingf makes an Invalid for a keyspace or a table that does not exist.
func Missingf(format string, args ...any) error {
	return &Invalid{Message: fmt.Sprintf(format, args...), Missing: true}
}

// Syntaxf makes a Syntax.
func Syntaxf(format string, args ...any) error { return &Syntax{fmt.Sprintf(format, args...)} }

// Configf makes a Config.
func Configf(format string, args ...any) error { return &Config{fmt.Sprintf(format, args...)} }

// Serverf makes a Server.
func Serverf(format string, args ...any) error { return &Server{fmt.Sprintf(format, args...)} }

// Protocolf makes a Protocol.
func Protocolf(format string, args ...any) error { return &Protocol{fmt.Sprintf(format, args...)} }

// Unauthorizedf makes an Unauthorized.
func Unauthorizedf(format string, args ...any) error {
	return &Unauthorized{fmt.Sprintf(format, args...)}
}
