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

// Metadata describes the columns of a result. NewMetadata is called once for each prepared statement and once for each
// unprepared request. Metadata is immutable and safe for concurrent use. Protocol servers can cache encoded forms of
// the metadata in its slots.
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

// Encoded returns the encoded form in slot i (0 to 3), or nil if the slot is empty.
func (m *Metadata) Encoded(i int) []byte {
	if p := m.slots[i].Load(); p != nil {
		return *p
	}
	return nil
}

// SetEncoded stores an encoded form in slot i. If two goroutines store the form at the same time, either value may be
// kept, because both values are equal.
func (m *Metadata) SetEncoded(i int, b []byte) { m.slots[i].Store(&b) }

// Kind is the kind of a result.
type Kind uint8

// These are the kinds of results.
const (
	Void Kind = iota
	Rows
	SetKeyspace
	SchemaChanged
	PreparedStatement
)

// SchemaChange describes the effect of a DDL statement. The client receives the change as the statement's result. All
// other clients receive the change as an event.
type SchemaChange struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	Keyspace string
	// Name is the name of the table, type, function, or aggregate. Name is empty for a keyspace.
	Name string
	// Args holds the argument types of a function or aggregate.
	Args []string
}

// Prepared describes a prepared statement.
type Prepared struct {
	ID [16]byte
	// Bind describes the bind markers.
	Bind []Column
	// PKIndexes holds the indexes in Bind of the partition key components, in key order. PKIndexes is nil unless all
	// components are bound.
	PKIndexes []uint16
	// Result describes the result columns. Result is nil for statements that return no rows. Result is also nil for
	// conditional statements, because their columns depend on the outcome.
	Result *Metadata
}

// Result is the result of a call in a protocol-independent form. If Err is not nil, only Err, Warnings, Payload, and
// the trace ID are valid.
type Result struct {
	Err  error
	Kind Kind

	// Metadata, Cells, RowCount, and PagingState hold the rows. Cells contains the values of all rows in row order.
	// Each value consists of a 32-bit big-endian length and the bytes of the value. The length -1 represents null. A
	// session appends to Cells[:0] to reuse the capacity of Cells.
	Metadata *Metadata
	Cells    []byte
	RowCount int
	// PagingState is nil on the last page. Otherwise, PagingState is valid until the response has been encoded.
	PagingState []byte
	// AlwaysMetadata reports whether the response must contain the columns even if the client requested their omission.
	// It is true for conditional statements and for tables whose columns have changed.
	AlwaysMetadata bool

	// Keyspace is the new keyspace of the session if Kind is SetKeyspace.
	Keyspace string
	// Change is the schema change if Kind is SchemaChanged.
	Change SchemaChange
	// Prepared describes the prepared statement if Kind is PreparedStatement.
	Prepared *Prepared

	Warnings []string
	// TraceID is the ID of the trace. TraceID is valid only if HasTrace is true.
	TraceID  [16]byte
	HasTrace bool
	Payload  []Payload
	// Charge is the cost of the request.
	Charge ru.Units

	chargeBytes [8]byte
}

// Reset sets the result to its zero value, but keeps the capacity of Cells and Payload.
func (r *Result) Reset() { *r = Result{Cells: r.Cells[:0], Payload: r.Payload[:0]} }

// Fail sets Err to err and returns Done.
func (r *Result) Fail(err error) Status {
	r.Err = err
	return Done
}
