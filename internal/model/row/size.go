// SPDX-License-Identifier: Apache-2.0

package row

// The logical size of a row is what request units are charged for. It is a sum over what the row says, not over how it
// is stored.
const (
	sizeRow  = 9
	sizeCell = 4
)

// Size returns the logical size in bytes: 9 for the row and, for each cell, 4 and the bytes of its path and value. It
// does not depend on how many operands made the row.
func (r *Row) Size() int {
	n := sizeRow
	for i := range r.Cells {
		n += sizeCell + len(r.Cells[i].Path) + len(r.Cells[i].Value)
	}
	return n
}

// Size returns the logical size of an operand in bytes: like Row.Size, deletions of cells and columns count as cells
// without a value, deleted ranges with their encoded length. It is 0 for corrupt bytes.
func Size(operand []byte) int {
	var h head
	pos := h.read(operand)
	if pos < 0 {
		return 0
	}
	size := sizeRow + len(h.ranges)
	var e entry
	for pos < len(operand) {
		if pos = e.read(operand, pos, h.base); pos < 0 {
			return 0
		}
		size += sizeCell + len(e.path) + len(e.value)
	}
	return size
}

// Contents is what an operand says, counted: what other databases charge for may be computed from it.
type Contents struct {
	// Cells are cells and deletions of single cells, and Bytes those of their values.
	Cells, Bytes int
	// Collections are the columns of which cells with paths are written, or all cells deleted.
	Collections int
	// Marked says that there is a marker, and Expires that it has a time to live.
	Marked, Expires bool
	// Ranges are the deleted ranges.
	Ranges []Range
}

// Count returns what an operand says, and hands out the paths of its cells; it returns nothing for corrupt bytes.
func Count(operand []byte, path func(column uint32, path []byte)) (c Contents) {
	var h head
	pos := h.read(operand)
	if pos < 0 {
		return Contents{}
	}
	var e, last entry
	for pos < len(operand) {
		if pos = e.read(operand, pos, h.base); pos < 0 {
			return Contents{}
		}
		if e.kind != kindColDeletion {
			c.Cells++
			c.Bytes += len(e.value)
		}
		if e.hasPath {
			path(e.col, e.path)
		}
		several := e.kind == kindColDeletion || e.hasPath
		if several && (c.Collections == 0 || e.col != last.col) {
			c.Collections++
		}
		last = e
	}
	c.Marked, c.Expires, c.Ranges = h.live, h.live && h.marker.TTL != 0, appendDecoded(nil, h.ranges, h.base)
	return c
}
