// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// ColumnValue returns the value of a static or regular column of a stored row, or nil if the column has no value. For a
// multi-cell column, ColumnValue assembles the value. For a single-cell column, the result refers to the memory of the
// row.
func ColumnValue(c *schema.Column, r *row.Row) ([]byte, error) {
	if row.OneCell(c.Type) {
		if cell := r.Cell(c.ID); cell != nil {
			return cell.Value, nil
		}
		return nil, nil
	}
	cells := r.Column(c.ID)
	if len(cells) == 0 {
		return nil, nil
	}
	return row.AppendValue(nil, c.Type, cells)
}

// pathKey returns the set element or the map key of a cell path.
func pathKey(t *cqltype.Type, path []byte) ([]byte, error) {
	key, _, err := t.Elems[0].ReadKey(nil, path, false)
	return key, err
}
