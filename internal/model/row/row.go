// SPDX-License-Identifier: Apache-2.0

package row

import "math"

// Unstamped is the timestamp of an operand that the leader has yet to stamp (see Stamp). Every other timestamp is
// microseconds since the epoch, by convention.
const Unstamped int64 = math.MinInt64

// NoExpiry is the Expiry of what does not expire.
const NoExpiry int64 = math.MaxInt64

// NotDeleted is the timestamp of a deletion that is not there: it hides nothing.
const NotDeleted int64 = math.MinInt64

// Cell is one live value of a row: of a whole single-cell column, or of one element of a multi-cell column.
type Cell struct {
	// Column is the schema's column id.
	Column uint32
	// Path is nil for a single-cell column, and CounterPath for a counter. For an element it is an order-preserving key
	// (cqltype.AppendKey, ascending): of the element for a set, the key for a map, the element's timeuuid for a list,
	// the field's index as a smallint for a UDT.
	Path []byte
	// Value is the wire form of the value; empty for a set element. Never nil in a live cell.
	Value []byte
	// Timestamp is in microseconds.
	Timestamp int64
	// TTL is the time to live in seconds it was written with, 0 = none; Expiry the second (since the epoch) at which it
	// ends.
	TTL    int32
	Expiry int64
}

// Liveness is the row marker that an INSERT leaves: the row exists though all its columns may be null.
type Liveness struct {
	Timestamp int64
	TTL       int32
	Expiry    int64
	// Lifetime is for how many seconds the row lives in a table with Lifetimes, DefaultLifetime for the table's
	// default, 0 if the row has none. Written is the second, since the epoch, from which it counts.
	Lifetime int32
	Written  int64
}

// Row is what a reader sees of a stored row at some second: deletions and expired cells are gone. Its slices point into
// memory that the reader reuses; they are valid until the next row.
type Row struct {
	// Live is true if the marker is there (HasLiveness after TTL and deletion).
	Live     bool
	Liveness Liveness
	// Cells are sorted by (Column, Path).
	Cells []Cell
}

// Exists reports whether the row is visible: it has a marker or any live cell.
func (r *Row) Exists() bool { return r.Live || len(r.Cells) > 0 }

// Cell returns the cell of a single-cell column, or nil.
func (r *Row) Cell(column uint32) *Cell {
	for i := range r.Cells {
		if r.Cells[i].Column == column {
			return &r.Cells[i]
		}
	}
	return nil
}

// Column returns the cells of a column: one for a single-cell column, any number for a multi-cell one or a counter.
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
