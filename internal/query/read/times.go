// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
)

// appendTimes appends the write times, or the remaining times to live, of all cells of a column as a list: in the order
// of its elements, or one for each field of a user-defined type.
func (s *scan) appendTimes(buf []byte, w *cellSlot, cells []row.Cell) []byte {
	times := make([][]byte, len(cells))
	if w.typ.Kind == cqltype.UDT {
		times = make([][]byte, len(w.typ.Elems))
	}
	for i := range cells {
		c, at := &cells[i], i
		if w.typ.Kind == cqltype.UDT {
			if at = fieldOf(w.typ, c.Path); at < 0 {
				continue
			}
		}
		switch {
		case w.part == cellWriteTimes:
			times[at] = binary.BigEndian.AppendUint64(nil, uint64(c.Timestamp))
		case c.TTL != 0:
			times[at] = binary.BigEndian.AppendUint32(nil, uint32(c.Expiry-s.options.Now))
		}
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(times)))
	for _, t := range times {
		buf = cqltype.AppendValue(buf, t)
	}
	return buf
}

// fieldOf is the field of a user-defined type that a cell holds, -1 for none that it has.
func fieldOf(t *cqltype.Type, path []byte) int {
	for i := range t.Elems {
		if bytes.Equal(row.FieldPath(i), path) {
			return i
		}
	}
	return -1
}
