// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// listState is the state of a list while the updates of one statement are resolved. It consists of the stored
// elements, modified by the statement's earlier updates.
type listState struct {
	statement int
	column    uint32
	cells     []row.Cell // sorted by path
}

// list returns the state of the list that u updates. cells are the stored elements.
func (r *resolver) list(u *Update, cells []row.Cell) *listState {
	for _, l := range r.lists {
		if l.statement == u.Statement && l.column == u.Column {
			return l
		}
	}
	l := &listState{statement: u.Statement, column: u.Column, cells: slices.Clone(cells)}
	r.lists = append(r.lists, l)
	return l
}

// set adds the value of an element to the operand. If value is nil, it adds the deletion of the element. If the change
// would be visible, set also applies it to the list.
func (r *resolver) set(l *listState, u *Update, path, value []byte) {
	at, there := slices.BinarySearchFunc(l.cells, path, func(c row.Cell, path []byte) int {
		return bytes.Compare(c.Path, path)
	})
	hidden := there && !u.wins(&l.cells[at], value)
	cell := row.Cell{Column: u.Column, Path: path, Value: value, Timestamp: u.Timestamp}
	switch {
	case hidden:
	case value == nil && there:
		l.cells = slices.Delete(l.cells, at, at+1)
	case value != nil && there:
		l.cells[at] = cell
	case value != nil:
		l.cells = slices.Insert(l.cells, at, cell)
	}
	b, ts := r.operandFor(u)
	if value == nil {
		b.TombstoneAt(u.Column, path, ts, r.now)
	} else {
		b.CellAt(u.Column, path, value, ts, u.TTL, u.Expiry)
	}
}

// operandFor returns the builder for the values that u sets, and the timestamp of these values. While the leader's
// timestamp is unknown, values with client timestamps go into a separate operand. The merge of the two operands then
// determines which of two values for one element wins.
func (r *resolver) operandFor(u *Update) (b *row.Builder, ts int64) {
	switch {
	case u.Timestamp == row.Unstamped:
		return &r.b, r.stamp
	case r.stamp != row.Unstamped:
		return &r.b, u.Timestamp
	case r.own.Empty():
		r.own.Reset(u.Timestamp)
	}
	return &r.own, u.Timestamp
}

// wins reports whether a value of u would be visible instead of a cell of the list, according to the merge rule. A nil
// value is a deletion. The leader's future timestamp is higher than the timestamp of every stored cell.
func (u *Update) wins(c *row.Cell, value []byte) bool {
	switch {
	case u.Timestamp == c.Timestamp:
		return value == nil || bytes.Compare(value, c.Value) > 0
	case u.Timestamp == row.Unstamped:
		return true
	}
	return u.Timestamp > c.Timestamp
}

// pathAt returns the path of the element at index Args[0].
func (l *listState) pathAt(u *Update, ifNull string) ([]byte, error) {
	if len(u.Args) == 0 {
		return nil, fmt.Errorf("list update without an index: %w", ErrMalformed)
	}
	i, err := listIndex(u.Args[0])
	if err != nil {
		return nil, err
	}
	if len(l.cells) == 0 {
		return nil, dberr.Invalidf("%s", ifNull)
	}
	if i < 0 || i >= len(l.cells) {
		return nil, dberr.Invalidf("List index %d out of bound, list has size %d", i, len(l.cells))
	}
	return l.cells[i].Path, nil
}

// having returns the paths of the elements whose values are in values.
func (l *listState) having(values [][]byte) (paths [][]byte) {
	for i := range l.cells {
		if slices.ContainsFunc(values, func(v []byte) bool { return bytes.Equal(v, l.cells[i].Value) }) {
			paths = append(paths, l.cells[i].Path)
		}
	}
	return paths
}
