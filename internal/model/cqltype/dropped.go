// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"cmp"
	"math"
	"slices"
)

// Dropped identifies the absent cells of a column, which are the cells with timestamps up to Upto. AllDropped selects
// all cells. The column was dropped from its table. It may have been added again.
type Dropped struct {
	Column uint32
	Upto   int64
}

// AllDropped is the value of Dropped.Upto for a column whose cells have all been dropped.
const AllDropped = math.MaxInt64

// Hides reports whether list hides the cell of a column that has the given timestamp. The list is in ascending order
// of columns.
func Hides(list []Dropped, column uint32, timestamp int64) bool {
	i, found := slices.BinarySearchFunc(list, column, func(d Dropped, c uint32) int { return cmp.Compare(d.Column, c) })
	return found && timestamp <= list[i].Upto
}
