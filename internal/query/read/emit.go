// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// emit appends the row at hand to the page. A result without pages that becomes too large is refused; a page
// ends where there is no memory for more.
func (s *scan) emit() error {
	s.page.Rows++
	var err error
	if s.plan.sel.json {
		err = s.emitJSON()
	} else {
		err = s.emitCells()
	}
	if err != nil || len(s.page.Cells) <= min(s.page.Held+memoryStep, s.options.ResultBytesMax) {
		return err
	}
	return s.holdMore()
}

// holdMore asks for memory for a result that has grown.
func (s *scan) holdMore() error {
	size := len(s.page.Cells)
	if s.paged {
		n := size - s.page.Held
		if s.cramped = s.options.Memory != nil && !s.options.Memory.Spare(n); !s.cramped {
			s.page.Held += n
		}
		return nil
	}
	if size > s.options.ResultBytesMax {
		return dberr.Invalidf("The result is larger than %d bytes, the most that is sent in one piece: set a page "+
			"size or a LIMIT", s.options.ResultBytesMax)
	}
	if s.options.Memory == nil {
		return nil
	}
	n := size - s.page.Held
	if err := s.options.Memory.Take(n); err != nil {
		return err
	}
	s.page.Held += n
	return nil
}

func (s *scan) emitCells() error {
	cells := s.page.Cells
	for i := range s.plan.sel.outputs {
		v, err := s.output(&s.plan.sel.outputs[i])
		if err != nil {
			return err
		}
		cells = appendCell(cells, v)
	}
	s.page.Cells = cells
	return nil
}

func (s *scan) output(o *output) ([]byte, error) {
	if o.slot >= 0 {
		return s.bind.Row[o.slot], nil
	}
	v, state, err := o.term.Eval(&s.bind)
	if state != expr.Value {
		v = nil
	}
	return v, err
}

func appendCell(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	return append(dst, v...)
}

// emitJSON appends the row as one JSON object. A name with capitals is in quotes of its own, as an identifier would be.
func (s *scan) emitJSON() error {
	out := append(s.json[:0], '{')
	for i := range s.plan.sel.outputs {
		o := &s.plan.sel.outputs[i]
		v, err := s.output(o)
		if err != nil {
			return err
		}
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, s.plan.jsonNames[i]...)
		if v == nil {
			out = append(out, "null"...)
		} else {
			out = o.typ.AppendJSON(out, v)
		}
	}
	s.json = append(out, '}')
	s.page.Cells = appendCell(s.page.Cells, s.json)
	return nil
}

// sortedRow is a row to be sorted: where its cells and its sort key are.
type sortedRow struct{ cells, cellsEnd, key, keyEnd int }

// noteSorted notes the sort key of the row that is about to be emitted: the forms of the ordering columns.
func (s *scan) noteSorted(clustering []byte) error {
	if len(s.page.Cells) > s.options.SortBytesMax {
		return dberr.Invalidf("ORDER BY over several partitions holds more than %d bytes; restrict the query",
			s.options.SortBytesMax)
	}
	r := sortedRow{cells: len(s.page.Cells), key: len(s.sortKeys)}
	rest := clustering
	for i, c := range s.plan.table.Clustering {
		if len(rest) == 0 {
			break
		}
		after, err := c.Type.SkipKey(rest, c.Desc)
		if err != nil {
			return dberr.Serverf("clustering key of %s.%s: %v", s.plan.table.Keyspace, s.plan.table.Name, err)
		}
		if slices.Contains(s.plan.sort, i) {
			s.sortKeys = append(s.sortKeys, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	r.keyEnd = len(s.sortKeys)
	s.sorted = append(s.sorted, r)
	return nil
}

// sortRows orders the rows of the page, and cuts them off at the limit.
func (s *scan) sortRows() {
	for i := range s.sorted {
		s.sorted[i].cellsEnd = len(s.page.Cells)
		if i+1 < len(s.sorted) {
			s.sorted[i].cellsEnd = s.sorted[i+1].cells
		}
	}
	slices.SortStableFunc(s.sorted, func(a, b sortedRow) int {
		c := bytes.Compare(s.sortKeys[a.key:a.keyEnd], s.sortKeys[b.key:b.keyEnd])
		if s.plan.reversed {
			return -c
		}
		return c
	})
	rows := s.sorted
	if int64(len(rows)) > s.trim {
		rows = rows[:s.trim]
	}
	out := make([]byte, 0, len(s.page.Cells))
	for _, r := range rows {
		out = append(out, s.page.Cells[r.cells:r.cellsEnd]...)
	}
	s.page.Cells, s.page.Rows = out, len(rows)
}

// jsonName is the key of a column in JSON, with the colon.
func jsonName(name string) string {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			name = `"` + name + `"`
			break
		}
	}
	return string(cqltype.AppendJSONString(nil, name)) + ": "
}
