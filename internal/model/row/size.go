// SPDX-License-Identifier: Apache-2.0

package row

// These constants define the logical size of a row. Request units are based on this size. The logical size depends on
// the row's content and not on its storage format.
const (
	sizeRow  = 9
	sizeCell = 4
)

// Size returns the logical size in bytes. The size is 9 for the row. Each cell adds 4 and the lengths of its path and
// value. It does not depend on the number of operands that produced the row.
func (r *Row) Size() int {
	n := sizeRow
	for i := range r.Cells {
		n += sizeCell + len(r.Cells[i].Path) + len(r.Cells[i].Value)
	}
	return n
}

// Size returns the logical size of an operand in bytes. Size uses the same formula as Row.Size. Deletions of cells and
// columns count as cells without a value, and deleted ranges count with their encoded length. Size returns 0 for
// corrupt bytes.
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

// Contents holds the number of parts in an operand. The counts determine the charges that other databases would make.
type Contents struct {
	// Cells counts cells and deletions of single cells. Bytes is the total size of their values.
	Cells, Bytes int
	// Collections counts the columns whose cells with paths are written or whose cells are all deleted.
	Collections int
	// Marked reports whether the operand sets the row marker. Expires reports whether the marker has a time to live.
	Marked, Expires bool
	// Ranges holds the deleted ranges.
	Ranges []Range
}

// Count returns the contents of an operand, and calls path with the path of each cell. Count returns empty contents
// for corrupt bytes.
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
