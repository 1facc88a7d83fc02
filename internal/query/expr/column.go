// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ColumnValue returns the value of a static or regular column of a stored row, nil if it has none. A value of several cells is put
// together anew; one of a single cell points into the row.
func ColumnValue(c *schema.Column, r *row.Row) ([]byte, error) {
	if !c.Type.MultiCell() {
		if cell := r.Cell(c.ID); cell != nil {
			return cell.Value, nil
		}
		return nil, nil
	}
	cells := r.Column(c.ID)
	if len(cells) == 0 {
		return nil, nil
	}
	if c.Type.Kind == cqltype.UDT {
		return fieldsValue(c.Type, cells)
	}
	parts := make([][]byte, 0, 2*len(cells))
	for i := range cells {
		if c.Type.Kind != cqltype.List {
			key, err := PathKey(c.Type, cells[i].Path)
			if err != nil {
				return nil, err
			}
			parts = append(parts, key)
		}
		if c.Type.Kind != cqltype.Set {
			parts = append(parts, cells[i].Value)
		}
	}
	return c.Type.AppendCollection(nil, parts...), nil
}

// PathKey returns the element of a set, or the key of a map, that the path of a cell stands for.
func PathKey(t *cqltype.Type, path []byte) ([]byte, error) {
	key, _, err := t.Elems[0].ReadKey(nil, path, false)
	return key, err
}

func fieldsValue(t *cqltype.Type, cells []row.Cell) ([]byte, error) {
	fields := make([][]byte, len(t.Elems))
	for i := range cells {
		wire, _, err := tSmallint.ReadKey(nil, cells[i].Path, false)
		if err != nil {
			return nil, err
		}
		// a field beyond the type is one of a newer revision
		if n, ok := tSmallint.Int64(wire); ok && n >= 0 && int(n) < len(fields) {
			fields[n] = cells[i].Value
		}
	}
	return t.AppendTuple(nil, fields...), nil
}
