// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/netip"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// Client describes the client of a session. It does not change during the session.
type Client struct {
	// Remote and Local are the ends of the connection. Remote is invalid for a caller inside the process.
	Remote, Local netip.AddrPort
	// User is the authenticated role, or empty if authentication is off.
	User string
	// Record is the version of the role record at authentication. If it is zero, NewSession uses the current version.
	Record access.RoleVersion
	// Account reports whether the client authenticated with an account key, like clients of Azure Cosmos DB. In this
	// case, User is the name of the key (access.AccountKeySubject) instead of a role.
	Account bool
	// Version is the version of the CQL binary protocol, 3 to 5.
	Version uint8
	// DriverName and DriverVersion are the name and version of the driver, as reported by the client. They are often
	// empty.
	DriverName, DriverVersion string
	// Options holds the options of the client's STARTUP message, or nil if they are unknown.
	Options map[string]string
	// Encrypted reports whether the connection uses TLS.
	Encrypted bool
	// Tablets reports whether the client understands the custom payload tablets-routing-v1.
	Tablets bool
}

// Login returns the login of the client.
func (c *Client) Login() access.Login { return access.Login{Role: c.User, Version: c.Record} }

// Payload is an entry of a custom payload, which clients and servers can attach to a message.
type Payload struct {
	Key, Value []byte
}

// BatchKind is the kind of a batch, by its number in the protocol.
type BatchKind uint8

// The kinds of batches.
const (
	Logged   BatchKind = 0
	Unlogged BatchKind = 1
	Counter  BatchKind = 2
)

// BatchStatement is one statement of a batch: a prepared statement's ID if Prepared is true, or a text otherwise.
type BatchStatement struct {
	Text     []byte
	ID       [16]byte
	Prepared bool
	// Values holds the bound values, as in Request.
	Values [][]byte
	Unset  []bool
}

// Request is a statement or a batch of statements that a client sent.
//
// All byte slices refer to the connection's read buffer. They are valid until the method that received the request
// returns, even if it returns Pending. Code that retains data must copy it. The caller owns the struct and reuses it.
type Request struct {
	// Version is the version of the CQL binary protocol, 3 to 5. Values always have the encoding of version 3 and
	// later.
	Version uint8
	// Text is the statement for Query and Prepare.
	Text []byte
	// ID is the prepared statement of Execute.
	ID [16]byte
	// Values holds the bound values in wire format. A nil value is null, or unset if its element of Unset is true.
	Values [][]byte
	// Unset is nil if all values are set. Otherwise, it is parallel to Values.
	Unset []bool
	// Names is nil if the values are bound by position. Otherwise, it is parallel to Values.
	Names [][]byte

	// BatchKind and Statements are the batch of Batch.
	BatchKind  BatchKind
	Statements []BatchStatement

	Consistency dberr.Consistency
	// Serial is the serial consistency level. It is dberr.Serial if the client did not set a level.
	Serial dberr.Consistency
	// PageSize is the number of rows per page. If it is not positive, the result is not paged.
	PageSize    int32
	PagingState []byte
	// Timestamp is the default timestamp in microseconds. It is valid only if HasTimestamp is true.
	Timestamp    int64
	HasTimestamp bool
	// Now is the client's current time in seconds, if HasNow is true.
	Now    int32
	HasNow bool
	// Keyspace overrides the session's keyspace for this request. It is empty if the request does not set it.
	Keyspace []byte
	// Tracing requests a trace. Its ID is returned in Result.TraceID.
	Tracing bool
	// Payload is the client's custom payload.
	Payload []Payload
}

// IsUnset reports whether value i is unset.
func (r *Request) IsUnset(i int) bool { return r.Unset != nil && r.Unset[i] }

// Status is the state of a call when a session method returns.
type Status uint8

const (
	// Done means that Call.Result is set.
	Done Status = iota
	// Pending means that Call.Complete will be called later, or has been called. The method and its caller must no
	// longer access the call.
	Pending
	// Offload means that the call was not executed, because it may take a long time and Call.MayBlock is false. The
	// caller must call the same method again with the same request and MayBlock set to true, on a goroutine that may
	// block.
	Offload
)

// Call holds a request and its result. Callers pool calls. Result.Cells keeps its capacity between calls.
type Call struct {
	Request Request
	Result  Result
	// MayBlock is true on a worker and false on the goroutine of a connection. On the goroutine of a connection, only
	// work that takes microseconds is permitted, because all later requests of the connection wait for it.
	MayBlock bool

	// wantsCharge reports whether the client requests the charge.
	wantsCharge bool
	// maxCharge is the maximum charge that the client accepts, or 0 if it is not limited.
	maxCharge ru.Units
	// lowPriority reports whether the request has low priority.
	lowPriority bool
	done        Completer
	// statement and began are the data that Running returns. began is in Unix nanoseconds and is set last. It is 0 if
	// no statement is running.
	statement atomic.Pointer[statement]
	began     atomic.Int64
}

// Completer is notified when a pending call has its result.
type Completer interface{ Completed() }

// CompleteTo sets the receiver of the completion. The caller of a session method sets it once per call, before it calls
// the method.
func (c *Call) CompleteTo(d Completer) { c.done = d }

// Complete completes a call for which Pending was returned or will be returned, after its Result has been set. It is
// called exactly once, on any goroutine. The caller must not hold a lock that a session method needs. After Complete,
// the call belongs to its receiver.
func (c *Call) Complete() { c.done.Completed() }
