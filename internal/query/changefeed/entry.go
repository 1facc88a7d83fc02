// SPDX-License-Identifier: Apache-2.0

package changefeed

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Changed returns the effect of a retained change on the row.
func (e *Entry) Changed() command.Changed {
	if cell := e.Row.Cell(command.ChangeKind); cell != nil && len(cell.Value) == 1 {
		return command.Changed(cell.Value[0])
	}
	return command.Replaced
}

// Before returns the version of the item that preceded a retained change of a container. If the item did not exist, the
// result has no cells.
func (e *Entry) Before() (before row.Row) {
	for _, cell := range e.Row.Cells {
		if cell.Column&command.ChangeBefore != 0 && cell.Column != command.ChangeKind {
			cell.Column &^= command.ChangeBefore
			before.Cells = append(before.Cells, cell)
		}
	}
	return before
}

// RowKey returns the clustering key of the row in a retained change of a CQL table. For the static row and for range
// deletions, the key is empty.
func (e *Entry) RowKey() ([]byte, error) {
	if len(e.Clustering) == 0 || e.Clustering[0] > keys.ChangedRow {
		return nil, errMalformed
	}
	return e.Clustering[1:], nil
}

// Images returns the versions of a CQL table's row after and before a retained change. A version without cells means
// that the row does not exist. Each cell has its original TTL.
func (e *Entry) Images() (after, before row.Row, err error) {
	for column, r := range map[uint32]*row.Row{command.ChangeRowAfter: &after, command.ChangeRowBefore: &before} {
		if cell := e.Row.Cell(column); cell != nil && err == nil {
			_, err = r.Resolve(cell.Value, row.NotDeleted, math.MinInt64, nil)
		}
	}
	return after, before, err
}

// Deletions returns the range deletions or the partition deletion in a retained change.
func (e *Entry) Deletions() (h row.Header, err error) {
	h.Clear()
	if cell := e.Row.Cell(command.ChangeDeletions); cell != nil {
		err = h.Resolve(cell.Value, math.MinInt64, nil)
	}
	return h, err
}
