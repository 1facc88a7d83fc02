// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net/netip"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// Client describes the other end of a session. It does not change during the session's life.
type Client struct {
	// Remote and Local are the ends of the connection; Remote is invalid for a caller inside the process.
	Remote, Local netip.AddrPort
	// User is the authenticated role, empty when nobody was asked.
	User string
	// Record is the record of the role that the client has authenticated as. NewSession takes the present one if it is
	// zero.
	Record access.RoleVersion
	// Account is true if the client has shown a key of the account, as those of Azure Cosmos DB do: User is the name of
	// the key then (access.OfKey), and says nothing of roles.
	Account bool
	// Version is the version of the CQL binary protocol, 3 to 5.
	Version uint8
	// DriverName and DriverVersion are what the client calls itself, often empty.
	DriverName, DriverVersion string
	// Options are those of the client's STARTUP, nil if they are unknown.
	Options map[string]string
	// Encrypted is true over TLS.
	Encrypted bool
	// Tablets is true if the client understands the custom payload tablets-routing-v1.
	Tablets bool
}

// Login is what the client has authenticated as.
func (c *Client) Login() access.Login { return access.Login{Role: c.User, Version: c.Record} }

// Payload is an entry of a custom payload, which clients and servers may attach to a message.
type Payload struct {
	Key, Value []byte
}

// BatchKind is the kind of a batch by its wire number.
type BatchKind uint8

// The kinds of batches.
const (
	Logged   BatchKind = 0
	Unlogged BatchKind = 1
	Counter  BatchKind = 2
)

// BatchStatement is one statement of a batch: an id if Prepared is true, else a text.
type BatchStatement struct {
	Text     []byte
	ID       [16]byte
	Prepared bool
	// Values are the bound values as in Request.
	Values [][]byte
	Unset  []bool
}

// Request is a statement, or a batch of them, as a client sent it.
//
// All byte slices are views over the connection's read buffer: they are valid until the method that got the request
// returns, also if it returns Pending. Whoever keeps something copies it. The struct itself belongs to the caller and
// is reused.
type Request struct {
	// Version is the version of the CQL binary protocol, 3 to 5. Values are in the encoding of version 3 and later in
	// any case.
	Version uint8
	// Text is the statement of Query and Prepare.
	Text []byte
	// ID is the prepared statement of Execute.
	ID [16]byte
	// Values are the bound values as wire bytes, nil = null. A value that was left unset is nil too, and true in Unset.
	Values [][]byte
	// Unset is nil if no value is unset, else parallel to Values.
	Unset []bool
	// Names is nil if the values are bound by position, else parallel to Values.
	Names [][]byte

	// BatchKind and Statements are what Batch gets.
	BatchKind  BatchKind
	Statements []BatchStatement

	Consistency dberr.Consistency
	// Serial is the consistency of a condition, dberr.Serial if the client gave none.
	Serial dberr.Consistency
	// PageSize is the number of rows per page; zero or less: no paging.
	PageSize    int32
	PagingState []byte
	// Timestamp is the default timestamp in microseconds, if HasTimestamp.
	Timestamp    int64
	HasTimestamp bool
	// Now is the client's idea of the current time in seconds, if HasNow.
	Now    int32
	HasNow bool
	// Keyspace is the keyspace for this request alone, empty = that of the session.
	Keyspace []byte
	// Tracing asks for a trace; its id goes to Result.TraceID.
	Tracing bool
	// Payload is the client's custom payload.
	Payload []Payload
}

// IsUnset reports whether value i was left unset.
func (r *Request) IsUnset(i int) bool { return r.Unset != nil && r.Unset[i] }

// Status says what became of a call when the method it was given to returns.
type Status uint8

const (
	// Done: Call.Result is filled.
	Done Status = iota
	// Pending: Call.Complete will be called later, or has been already. The method and its caller must not touch the
	// call any more.
	Pending
	// Offload: nothing was done, because the work may take long and Call.MayBlock is false. The caller calls the same
	// method again with the same request and MayBlock = true, from a goroutine that can wait.
	Offload
)

// Call is a request and the place for its result. Callers pool calls; Result.Cells keeps its capacity from call to
// call.
type Call struct {
	Request Request
	Result  Result
	// MayBlock is false on the goroutine of a connection, where all later requests wait: only work that takes
	// microseconds may be done there. It is true on a worker.
	MayBlock bool

	// wantsCharge says that the client asks what the request costs.
	wantsCharge bool
	// maxCharge is what the client allows it to cost, 0 if there is no bound.
	maxCharge ru.Units
	// low says that the request is of low priority.
	lowPriority bool
	done        Completer
	// statement and began are what UnderWay tells of: began, in Unix nanoseconds, is set last, and 0 where it tells of
	// nothing.
	statement atomic.Pointer[statement]
	began     atomic.Int64
}

// Completer is told that a pending call has its result.
type Completer interface{ Completed() }

// CompleteTo sets the receiver of the completion; the caller of a session method does it once per call before the
// method.
func (c *Call) CompleteTo(d Completer) { c.done = d }

// Complete ends a call for which Pending was (or will be) returned, after its Result was filled. It is called exactly
// once, from any goroutine, holding no lock that a session method needs; afterwards the call belongs to somebody else.
func (c *Call) Complete() { c.done.Completed() }
