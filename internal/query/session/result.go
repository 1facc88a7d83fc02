// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/md5"
	"encoding/binary"
	"hash"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/ru"
)

// Column describes a bind marker or a column of a result.
type Column struct {
	Keyspace, Table, Name string
	Type                  *cqltype.Type
}

// Metadata describes the columns of a result. It is made once per prepared statement (or per unprepared request) with
// NewMetadata, is immutable and may be shared; doors keep their encoded form of it in its slots.
type Metadata struct {
	Columns []Column
	// ID is a digest of the columns. A client that remembers an older one is told the new columns.
	ID [16]byte

	slots [4]atomic.Pointer[[]byte]
}

// NewMetadata describes columns, which must not be changed any more.
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

// Encoded returns what a door stored in slot i (0 to 3), nil if nothing yet.
func (m *Metadata) Encoded(i int) []byte {
	if p := m.slots[i].Load(); p != nil {
		return *p
	}
	return nil
}

// SetEncoded stores a door's encoded form. When two do it at once either is kept: they are equal.
func (m *Metadata) SetEncoded(i int, b []byte) { m.slots[i].Store(&b) }

// Kind says what a result is.
type Kind uint8

// The kinds of results.
const (
	Void Kind = iota
	Rows
	SetKeyspace
	SchemaChanged
	PreparedStatement
)

// SchemaChange tells what a DDL statement changed; it is the result of the statement and an event for everybody else.
type SchemaChange struct {
	Change   string // CREATED, UPDATED, DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	Keyspace string
	// Name is the table, type, function or aggregate; empty for a keyspace.
	Name string
	// Args are the argument types of a function or aggregate.
	Args []string
}

// Prepared describes a prepared statement.
type Prepared struct {
	ID [16]byte
	// Bind describes the markers.
	Bind []Column
	// PKIndexes are the positions in Bind of the components of the partition key, in their order; nil if not all are
	// bound.
	PKIndexes []uint16
	// Result describes the rows; nil for statements without rows and for conditional ones, whose columns depend on the
	// outcome.
	Result *Metadata
}

// Result is the answer to a call, free of any protocol. Err decides: if it is not nil, only Err, Warnings, Payload and
// the trace id count.
type Result struct {
	Err  error
	Kind Kind

	// Metadata, Cells, RowCount and PagingState are the rows. Cells holds the values of all rows, row by row, each as a
	// 32-bit big-endian length (-1 = null) and that many bytes. A session appends to Cells[:0], whose capacity is
	// reused.
	Metadata *Metadata
	Cells    []byte
	RowCount int
	// PagingState is nil on the last page. It must outlive the call's completion only until the answer is encoded.
	PagingState []byte
	// AlwaysMetadata sends the columns even to a client that asked to leave them out: those of a conditional statement,
	// or of a table that was altered.
	AlwaysMetadata bool

	// Keyspace is the new keyspace of the session, for SetKeyspace.
	Keyspace string
	// Change is for SchemaChanged.
	Change SchemaChange
	// Prepared is for PreparedStatement.
	Prepared *Prepared

	Warnings []string
	// TraceID is the id of the trace, if HasTrace.
	TraceID  [16]byte
	HasTrace bool
	Payload  []Payload
	// Charge is what the request has cost.
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
