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
	cells, bytes, ranges, ok := measure(operand)
	if !ok {
		return 0
	}
	return sizeRow + ranges + sizeCell*cells + bytes
}

// Contents returns the number of cells of an operand, deletions of cells and columns included, and the bytes of their
// paths and values: what other databases charge for may be computed from it. Both are 0 for corrupt bytes.
func Contents(operand []byte) (cells, bytes int) {
	cells, bytes, _, ok := measure(operand)
	if !ok {
		return 0, 0
	}
	return cells, bytes
}

func measure(operand []byte) (cells, bytes, ranges int, ok bool) {
	var h head
	pos := h.read(operand)
	if pos < 0 {
		return 0, 0, 0, false
	}
	var e entry
	for pos < len(operand) {
		if pos = e.read(operand, pos, h.base); pos < 0 {
			return 0, 0, 0, false
		}
		cells++
		bytes += len(e.path) + len(e.value)
	}
	return cells, bytes, len(h.ranges), true
}
