// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
)

// appendTimes appends the write times or remaining TTLs of all cells of a column as a list. For a user-defined type,
// the list contains one entry per field. For other types, the list is in element order.
func (d *rowSlots) appendTimes(buf []byte, w *cellSlot, cells []row.Cell) []byte {
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
		times[at] = d.timeOf(c, w.part == cellTTLs)
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(times)))
	for _, t := range times {
		buf = cqltype.AppendValue(buf, t)
	}
	return buf
}

// timeOf returns the write time or the remaining TTL of a cell. If the cell has no TTL, the remaining TTL is nil.
func (d *rowSlots) timeOf(c *row.Cell, ttl bool) []byte {
	switch {
	case !ttl:
		return binary.BigEndian.AppendUint64(nil, uint64(c.Timestamp))
	case c.TTL != 0:
		return binary.BigEndian.AppendUint32(nil, uint32(c.Expiry-d.now))
	}
	return nil
}

// appendTimesByKey appends the write times or remaining TTLs of all cells of a column in the form of expr.TimesOf. For
// a map or set, the keys identify the times. For a user-defined type, the times are fields.
func (d *rowSlots) appendTimesByKey(buf []byte, w *cellSlot, cells []row.Cell) ([]byte, error) {
	ttl := w.part == cellTTLsByKey
	if w.typ.Kind == cqltype.UDT {
		for i := range w.typ.Elems {
			var at []byte
			for j := range cells {
				if fieldOf(w.typ, cells[j].Path) == i {
					at = d.timeOf(&cells[j], ttl)
				}
			}
			buf = cqltype.AppendValue(buf, at)
		}
		return buf, nil
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(cells)))
	for i := range cells {
		key, _, err := w.typ.Elems[0].ReadKey(nil, cells[i].Path, false)
		if err != nil {
			return buf, err
		}
		buf = cqltype.AppendValue(cqltype.AppendValue(buf, key), d.timeOf(&cells[i], ttl))
	}
	return buf, nil
}

// fieldOf returns the index of the field that a cell holds, or -1 if the type has no such field.
func fieldOf(t *cqltype.Type, path []byte) int {
	for i := range t.Elems {
		if bytes.Equal(row.FieldPath(i), path) {
			return i
		}
	}
	return -1
}
