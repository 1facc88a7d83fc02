// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/md5"
	"encoding/binary"
	"hash"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// Column describes a bind marker or a column of a result.
type Column = expr.Column

// Metadata describes the columns of a result. NewMetadata creates it once for each prepared statement and once for each
// unprepared request. It is immutable and may be shared. Protocol servers cache their encoded form in its slots.
type Metadata struct {
	Columns []Column
	// ID is a digest of the columns. A client that has cached a different ID receives the new columns.
	ID [16]byte

	slots [4]atomic.Pointer[[]byte]
}

// NewMetadata returns the description of columns. The caller must not change the columns afterward.
func NewMetadata(columns []Column) *Metadata {
	m := &Metadata{Columns: columns}
	h := md5.New()
	for i := range columns {
		c := &columns[i]
		hashString(h, c.Keyspace)
		hashString(h, c.Table)
		hashString(h, c.Name)
		hashType(h, c.Type)
	}
	h.Sum(m.ID[:0])
	return m
}

func hashString(h hash.Hash, s string) {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(s)))
	h.Write(n[:])
	h.Write([]byte(s))
}

func hashType(h hash.Hash, t *cqltype.Type) {
	h.Write([]byte{byte(t.Kind), byte(len(t.Elems))})
	hashString(h, t.Keyspace)
	hashString(h, t.Name)
	for _, f := range t.Fields {
		hashString(h, f)
	}
	for _, e := range t.Elems {
		hashType(h, e)
	}
}

// Encoded returns the encoded form in slot i (0 to 3), or nil if it has not been stored.
func (m *Metadata) Encoded(i int) []byte {
	if p := m.slots[i].Load(); p != nil {
		return *p
	}
	return nil
}

// SetEncoded stores an encoded form. If two goroutines store it at the same time, either form may be kept, because the
// forms are equal.
func (m *Metadata) SetEncoded(i int, b []byte) { m.slots[i].Store(&b) }

// Kind is the kind of a result.
type Kind uint8

// The kinds of results.
const (
	Void Kind = iota
	Rows
	SetKeyspace
	SchemaChanged
	PreparedStatement
)

// SchemaChange describes the effect of a DDL statement. It is the result of the statement and the event for all other
// clients.
type SchemaChange struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	Keyspace string
	// Name is the name of the table, type, function, or aggregate. It is empty for a keyspace.
	Name string
	// Args holds the argument types of a function or aggregate.
	Args []string
}

// Prepared describes a prepared statement.
type Prepared struct {
	ID [16]byte
	// Bind describes the markers.
	Bind []Column
	// PKIndexes holds the positions in Bind of the partition key components, in key order. It is nil unless all
	// components are bound.
	PKIndexes []uint16
	// Result describes the rows. It is nil for statements without rows, and for conditional statements, whose columns
	// depend on the outcome.
	Result *Metadata
}

// Result is the result of a call, independent of the protocol. If Err is not nil, only Err, Warnings, Payload, and the
// trace ID are valid.
type Result struct {
	Err  error
	Kind Kind

	// Metadata, Cells, RowCount, and PagingState hold the rows. Cells contains the values of all rows, row by row. Each
	// value is a 32-bit big-endian length (-1 for null) followed by that number of bytes. A session appends to
	// Cells[:0] to reuse the capacity of Cells.
	Metadata *Metadata
	Cells    []byte
	RowCount int
	// PagingState is nil on the last page. It is valid until the response has been encoded.
	PagingState []byte
	// AlwaysMetadata sends the columns even to a client that asked to omit them. It is set for conditional statements
	// and for tables whose columns have changed.
	AlwaysMetadata bool

	// Keyspace is the new keyspace of the session, for SetKeyspace.
	Keyspace string
	// Change is the schema change, for SchemaChanged.
	Change SchemaChange
	// Prepared is the prepared statement, for PreparedStatement.
	Prepared *Prepared

	Warnings []string
	// TraceID is the ID of the trace, if HasTrace is true.
	TraceID  [16]byte
	HasTrace bool
	Payload  []Payload
	// Charge is the cost of the request.
	Charge ru.Units

	chargeBytes [8]byte
}

// Reset makes the result Void and keeps the capacity of Cells and Payload.
func (r *Result) Reset() { *r = Result{Cells: r.Cells[:0], Payload: r.Payload[:0]} }

// Fail makes err the result.
func (r *Result) Fail(err error) Status {
	r.Err = err
	return Done
}
