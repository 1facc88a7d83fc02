// SPDX-License-Identifier: Apache-2.0

package row

// The logical size of a row is what request units are charged for. It is a sum over what the row says, not over how it is stored.
const (
	sizeRow  = 9
	sizeCell = 4
)

// Size returns the logical size in bytes: 9 for the row and, for each cell, 4 and the bytes of its path and value. It does not
// depend on how many operands made the row.
func (r *Row) Size() int {
	n := sizeRow
	for i := range r.Cells {
		n += sizeCell + len(r.Cells[i].Path) + len(r.Cells[i].Value)
	}
	return n
}

// Size returns the logical size of an operand in bytes: like Row.Size, deletions of cells and columns count as cells without a
// value, deleted ranges with their encoded length. It is 0 for corrupt bytes.
func Size(operand []byte) int {
	var h head
	pos := h.read(operand)
	if pos < 0 {
		return 0
	}
	n := sizeRow
	if h.ranges != nil {
		n += len(h.ranges)
	}
	var e entry
	for pos < len(operand) {
		if pos = e.read(operand, pos, h.base); pos < 0 {
			return 0
		}
		n += sizeCell + len(e.path) + len(e.value)
	}
	return n
}
