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
	// Remote and Local are the addresses of the connection. For a caller inside the process, Remote is invalid.
	Remote, Local netip.AddrPort
	// User is the authenticated role, or empty if authentication is off.
	User string
	// Record is the version of the role record at authentication. If Record is zero, NewSession uses the current
	// version.
	Record access.RoleVersion
	// Account reports whether the client authenticated with an account key, like clients of Azure Cosmos DB. If Account
	// is true, User is the name of the key (access.AccountKeySubject) instead of a role.
	Account bool
	// Version is the version of the CQL binary protocol, 3 to 5.
	Version uint8
	// DriverName and DriverVersion are the driver name and version that the client reports. Both are often empty.
	DriverName, DriverVersion string
	// Options holds the options of the client's STARTUP message. It is nil if the options are unknown.
	Options map[string]string
	// Encrypted reports whether the connection uses TLS.
	Encrypted bool
	// Tablets reports whether the client understands the custom payload tablets-routing-v1.
	Tablets bool
}

// Login returns the login of the client.
func (c *Client) Login() access.Login { return access.Login{Role: c.User, Version: c.Record} }

// Payload is an entry of the custom payload of a message.
type Payload struct {
	Key, Value []byte
}

// BatchKind is the protocol's number for the kind of a batch.
type BatchKind uint8

// These are the kinds of batches.
const (
	Logged   BatchKind = 0
	Unlogged BatchKind = 1
	Counter  BatchKind = 2
)

// BatchStatement is one statement of a batch message. If Prepared is true, the batch specifies the ID of a prepared
// statement. Otherwise, the batch contains the statement text.
type BatchStatement struct {
	Text     []byte
	ID       [16]byte
	Prepared bool
	// Values holds the bound values, in the format of Request.Values.
	Values [][]byte
	Unset  []bool
}

// Request is a statement or a batch of statements that a client sent.
//
// All byte slices refer to the connection's read buffer. The slices become invalid when the method that received the
// request returns, even if the method returns Pending. Code that retains data must copy the data. The caller owns the
// struct and may reuse it.
type Request struct {
	// Version is the version of the CQL binary protocol, 3 to 5. All versions use the same encoding of values.
	Version uint8
	// Text is the statement text for Query and Prepare.
	Text []byte
	// ID is the ID of the prepared statement for Execute.
	ID [16]byte
	// Values holds the bound values in wire format. A nil value is unset if the corresponding element of Unset is true,
	// and null otherwise.
	Values [][]byte
	// Unset is nil if all values are set. Otherwise, Unset contains one element for each value.
	Unset []bool
	// Names is nil if the values are bound by position. Otherwise, Names contains one element for each value.
	Names [][]byte

	// BatchKind and Statements are the kind and the statements of a batch message.
	BatchKind  BatchKind
	Statements []BatchStatement

	Consistency dberr.Consistency
	// Serial is the serial consistency level. If the client did not set a level, Serial is dberr.Serial.
	Serial dberr.Consistency
	// PageSize is the number of rows per page. If PageSize is not positive, the result is not paged.
	PageSize    int32
	PagingState []byte
	// Timestamp is the default timestamp in microseconds. Timestamp is valid only if HasTimestamp is true.
	Timestamp    int64
	HasTimestamp bool
	// Now is the client's current time in seconds. Now is valid only if HasNow is true.
	Now    int32
	HasNow bool
	// Keyspace overrides the session's keyspace for this request. If the request does not specify a keyspace, Keyspace
	// is empty.
	Keyspace []byte
	// Tracing reports whether the client requests a trace. Result.TraceID returns the trace ID.
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
	// Pending means that Call.Complete will be called or has already been called. The method and its caller must no
	// longer access the call.
	Pending
	// Offload means that the call was not executed because it may block and Call.MayBlock is false. The caller must set
	// MayBlock to true and call the method again on a goroutine that may block.
	Offload
)

// Call holds a request and its result. Callers reuse calls to retain the capacity of Result.Cells.
type Call struct {
	Request Request
	Result  Result
	// MayBlock is true on a worker and false on the goroutine of a connection. A connection's goroutine may execute
	// only work that takes microseconds, because all later requests of the connection wait for this goroutine.
	MayBlock bool

	// wantsCharge reports whether the client requests the charge.
	wantsCharge bool
	// maxCharge is the maximum charge that the client accepts, or 0 if the charge is not limited.
	maxCharge ru.Units
	// lowPriority reports whether the request has low priority.
	lowPriority bool
	done        Completer
	// Running returns statement and began. began is the start time in Unix nanoseconds, or 0 if no statement is
	// running. setRunning sets began last.
	statement atomic.Pointer[statement]
	began     atomic.Int64
}

// Completer is notified when a pending call has its result.
type Completer interface{ Completed() }

// CompleteTo sets the receiver of the completion. The caller must call CompleteTo before each call of a session method.
func (c *Call) CompleteTo(d Completer) { c.done = d }

// Complete completes a pending call whose Result has been set. Complete must be called exactly once and may be called
// on any goroutine. The caller must not hold a lock that a session method needs, and must not access the call
// afterward.
func (c *Call) Complete() { c.done.Completed() }
