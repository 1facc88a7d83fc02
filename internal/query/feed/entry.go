// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Changed is what a kept change has done to the row.
func (e *Entry) Changed() command.Changed {
	if cell := e.Row.Cell(command.ChangeKind); cell != nil && len(cell.Value) == 1 {
		return command.Changed(cell.Value[0])
	}
	return command.Replaced
}

// Before is the item as it was before a kept change of a container, without cells if there was none.
func (e *Entry) Before() (before row.Row) {
	for _, cell := range e.Row.Cells {
		if cell.Column&command.ChangeBefore != 0 && cell.Column != command.ChangeKind {
			cell.Column &^= command.ChangeBefore
			before.Cells = append(before.Cells, cell)
		}
	}
	return before
}

// RowKey is the clustering key of the row of a kept change of a CQL table; it is empty for the static row, and for
// deletions of ranges.
func (e *Entry) RowKey() ([]byte, error) {
	if len(e.Clustering) == 0 || e.Clustering[0] > keys.ChangedRow {
		return nil, errMalformed
	}
	return e.Clustering[1:], nil
}

// Images are the row of a CQL table as it is after a kept change and as it was before. One that does not exist has no
// cells. Times to live are those with which cells were written.
func (e *Entry) Images() (after, before row.Row, err error) {
	for column, r := range map[uint32]*row.Row{command.ChangeRowAfter: &after, command.ChangeRowBefore: &before} {
		if cell := e.Row.Cell(column); cell != nil && err == nil {
			_, err = r.Resolve(cell.Value, row.NotDeleted, math.MinInt64, nil)
		}
	}
	return after, before, err
}

// Deletions are those of a kept change that is a deletion of ranges, or of the whole logical partition.
func (e *Entry) Deletions() (h row.Header, err error) {
	h.Clear()
	if cell := e.Row.Cell(command.ChangeDeletions); cell != nil {
		err = h.Resolve(cell.Value, math.MinInt64, nil)
	}
	return h, err
}
