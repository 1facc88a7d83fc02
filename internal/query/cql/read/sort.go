// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// sorter sorts the rows of a page for an ORDER BY of several partitions.
type sorter struct {
	by  *ordering
	out *resultWriter
	// limit is the maximum number of rows after sorting.
	limit int64
	rows  []sortedRow
	keys  []byte
}

func (o *sorter) reset() {
	clear(o.rows)
	*o = sorter{rows: o.rows[:0], keys: o.keys[:0]}
}

// retained returns the size of the buffers in bytes.
func (o *sorter) retained() int { return cap(o.keys) + sortedBytes*cap(o.rows) }

// sortedRow holds the positions of a row's cells and its sort key.
type sortedRow struct{ cells, cellsEnd, key, keyEnd int }

// add records the sort key of the next row. The sort key consists of the key forms of the ordering columns.
func (o *sorter) add(clustering []byte) error {
	if len(o.out.page.Cells)+len(o.keys)+sortedBytes*len(o.rows) > o.out.options.SortBytesMax {
		return dberr.Invalidf("ORDER BY over several partitions exceeds %d bytes of memory: restrict the query",
			o.out.options.SortBytesMax)
	}
	r := sortedRow{cells: len(o.out.page.Cells), key: len(o.keys)}
	rest := clustering
	for i, c := range o.out.sel.table.Clustering {
		if len(rest) == 0 {
			break
		}
		after, err := c.Type.SkipKey(rest, c.Desc)
		if err != nil {
			return dberr.Serverf("clustering key of %s.%s: %v", o.out.sel.table.Keyspace, o.out.sel.table.Name, err)
		}
		if slices.Contains(o.by.sort, i) {
			o.keys = append(o.keys, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	r.keyEnd = len(o.keys)
	o.rows = append(o.rows, r)
	return o.out.bind.Meter.Keep(2*(r.keyEnd-r.key) + 2*sortedBytes)
}

// sortedBytes is the size of a sortedRow in memory.
const sortedBytes = 32

// sort sorts the rows of the page and truncates the page to limit rows.
func (o *sorter) sort() error {
	for i := range o.rows {
		o.rows[i].cellsEnd = len(o.out.page.Cells)
		if i+1 < len(o.rows) {
			o.rows[i].cellsEnd = o.rows[i+1].cells
		}
	}
	m := o.out.bind.Meter
	slices.SortFunc(o.rows, func(a, b sortedRow) int {
		if m.Step(2) != nil {
			return 0 // the meter has an error, so the result is discarded
		}
		c := bytes.Compare(o.keys[a.key:a.keyEnd], o.keys[b.key:b.keyEnd])
		if o.by.reversed {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.cells, b.cells))
	})
	if err := cmp.Or(m.Err(), m.Keep(len(o.out.page.Cells))); err != nil {
		return err
	}
	rows := o.rows
	if int64(len(rows)) > o.limit {
		rows = rows[:o.limit]
	}
	out := make([]byte, 0, len(o.out.page.Cells))
	for _, r := range rows {
		out = append(out, o.out.page.Cells[r.cells:r.cellsEnd]...)
	}
	o.out.page.Cells, o.out.page.Rows = out, len(rows)
	return nil
}
