// SPDX-License-Identifier: Apache-2.0

package row

import (
	"math"
	"slices"
)

// Unstamped is the timestamp of an operand to which the leader has not assigned a timestamp yet (see Stamp). By
// convention, all other timestamps are microseconds since the epoch.
const Unstamped int64 = math.MinInt64

// NoExpiry is the Expiry of data that does not expire.
const NoExpiry int64 = math.MaxInt64

// NotDeleted is the timestamp of an absent deletion. NotDeleted does not hide any data.
const NotDeleted int64 = math.MinInt64

// Cell is one live value of a row. It is the value of a single-cell column, or one element of a multi-cell column.
type Cell struct {
	// Column is the column ID of the schema.
	Column uint32
	// Path is nil for a single-cell column, and CounterPath for a counter. For an element, Path is an order-preserving
	// key (cqltype.AppendKey, ascending). The key encodes the set element, the map key, the timeuuid of the list
	// element, or the UDT field's index as a smallint.
	Path []byte
	// Value is the wire form of the value. Value is empty for a set element, and never nil in a live cell.
	Value []byte
	// Timestamp is the timestamp of the cell in microseconds.
	Timestamp int64
	// TTL is the time to live in seconds, or 0 for none. Expiry is the time at which the cell expires, in seconds
	// since the epoch.
	TTL    int32
	Expiry int64
}

// Liveness is the row marker that an INSERT writes. A row with a marker exists even if all its columns are null.
type Liveness struct {
	Timestamp int64
	TTL       int32
	Expiry    int64
	// Lifetime is the number of seconds for which the row lives in a table with Lifetimes. Lifetime is DefaultLifetime
	// for the table's default, or 0 if the row has no lifetime. Written is the time at which the lifetime starts, in
	// seconds since the epoch.
	Lifetime int32
	Written  int64
}

// Row is a stored row as a reader sees it at a given second. It has no deleted or expired cells. The slices of a Row
// point into memory that the reader reuses. The slices are valid until the next row is read.
type Row struct {
	// Live is true if the row marker is live after TTL and deletions have been applied.
	Live     bool
	Liveness Liveness
	// Cells are sorted by (Column, Path).
	Cells []Cell
}

// Exists reports whether the row is visible. A visible row has a marker or a live cell.
func (r *Row) Exists() bool { return r.Live || len(r.Cells) > 0 }

// Clone returns a deep copy of the row.
func (r *Row) Clone() Row {
	out := Row{Live: r.Live, Liveness: r.Liveness, Cells: slices.Clone(r.Cells)}
	n := 0
	for i := range out.Cells {
		n += len(out.Cells[i].Path) + len(out.Cells[i].Value)
	}
	buf := make([]byte, 0, n)
	hold := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		at := len(buf)
		buf = append(buf, b...)
		return buf[at:len(buf):len(buf)]
	}
	for i := range out.Cells {
		c := &out.Cells[i]
		c.Path, c.Value = hold(c.Path), hold(c.Value)
	}
	return out
}

// Cell returns the cell of a single-cell column, or nil if the row has no such cell.
func (r *Row) Cell(column uint32) *Cell {
	for i := range r.Cells {
		if r.Cells[i].Column == column {
			return &r.Cells[i]
		}
	}
	return nil
}

// Column returns the cells of a column. A single-cell column has at most one cell. A multi-cell column or a counter has
// any number of cells.
func (r *Row) Column(column uint32) []Cell {
	lo := 0
	for lo < len(r.Cells) && r.Cells[lo].Column < column {
		lo++
	}
	hi := lo
	for hi < len(r.Cells) && r.Cells[hi].Column == column {
		hi++
	}
	return r.Cells[lo:hi]
}
