// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// emit appends the current row to the page. It reserves memory before the result grows. An unpaged result that becomes
// too large is rejected. A page ends when no more memory is available.
func (s *scan) emit() error {
	s.page.Rows++
	s.rowBegin = len(s.page.Cells)
	if s.plan.sel.json {
		return s.emitJSON()
	}
	return s.emitCells()
}

// makeRoom reserves memory for n more bytes of the result.
func (s *scan) makeRoom(n int) error {
	need := len(s.page.Cells) + n
	switch {
	case need-s.rowBegin > s.options.ResultBytesMax:
		return dberr.Invalidf("A row of the result exceeds the maximum size of %d bytes: select fewer or "+
			"smaller columns", s.options.ResultBytesMax)
	case !s.paged && need > s.options.ResultBytesMax:
		return dberr.Invalidf("The result exceeds %d bytes, the maximum size of an unpaged result: set a page "+
			"size or a LIMIT", s.options.ResultBytesMax)
	}
	if more := need - s.page.Held; s.options.Memory != nil && more > memoryStep {
		if err := s.reserve(more, need-s.rowBegin); err != nil {
			return err
		}
	}
	s.room = min(need+memoryStep, max(need, s.rowBegin+s.options.ResultBytesMax))
	if !s.paged {
		s.room = min(s.room, max(need, s.options.ResultBytesMax))
	}
	return nil
}

// largeRow is the size from which a row needs its own memory reservation. Without memory, such a row is rejected. A
// page without memory can still end with a smaller row.
const largeRow = 256 << 10

// reserve reserves memory for a growing result. row is the current size of the row.
func (s *scan) reserve(more, row int) error {
	m := s.options.Memory
	if s.paged {
		if s.lowMemory = !m.Spare(more); s.lowMemory && row <= largeRow {
			return nil
		}
	}
	if s.lowMemory || !s.paged {
		if err := m.Take(more); err != nil {
			return err
		}
	}
	s.page.Held += more
	return nil
}

func (s *scan) emitCells() error {
	cells := s.page.Cells
	for i := range s.plan.sel.outputs {
		o := &s.plan.sel.outputs[i]
		var v []byte
		if o.slot >= 0 {
			v = s.bind.Row[o.slot]
		} else {
			var err error
			mark := s.bind.Meter.Mark()
			if v, err = s.compute(o); err != nil {
				return err
			}
			s.bind.Meter.Release(mark)
		}
		if len(cells)+4+len(v) > s.room {
			s.page.Cells = cells
			if err := s.makeRoom(4 + len(v)); err != nil {
				return err
			}
		}
		cells = appendCell(grown(cells, 4+len(v), s.rowBegin+s.options.ResultBytesMax), v)
	}
	s.page.Cells = cells
	return nil
}

// grown returns a buffer with room for n more bytes. Its capacity does not exceed most unless n requires it. append
// enlarges a large buffer by only a quarter each time, which leaves several times the size of the result as garbage.
func grown(b []byte, n, most int) []byte {
	need := len(b) + n
	if need <= cap(b) || need < largeRow {
		return b
	}
	return append(make([]byte, 0, max(need, min(2*need, most))), b...)
}

// compute evaluates an output that is not a plain column.
func (s *scan) compute(o *output) ([]byte, error) {
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

// emitJSON appends the row as one JSON object. A name with capital letters is quoted like an identifier.
func (s *scan) emitJSON() error {
	out := append(s.json[:0], '{')
	before := s.bind.Meter.Mark()
	for i := range s.plan.sel.outputs {
		o := &s.plan.sel.outputs[i]
		var v []byte
		mark := s.bind.Meter.Mark()
		if o.slot >= 0 {
			v = s.bind.Row[o.slot]
		} else {
			var err error
			if v, err = s.compute(o); err != nil {
				return err
			}
		}
		size := len(s.plan.jsonNames[i]) + o.typ.JSONSize(v, s.options.ResultBytesMax)
		if len(out)+size > cap(out) {
			if err := s.growJSON(len(out) + size); err != nil {
				return err
			}
			mark = s.bind.Meter.Mark()
			out = grown(out, size, s.options.ResultBytesMax)
			out = slices.Grow(out, size)
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
		s.bind.Meter.Release(mark)
	}
	s.json = append(out, '}')
	s.bind.Meter.Release(before)
	if len(s.page.Cells)+4+len(s.json) > s.room {
		if err := s.makeRoom(4 + len(s.json)); err != nil {
			return err
		}
	}
	s.page.Cells = appendCell(s.page.Cells, s.json)
	return nil
}

// growJSON reserves memory for a JSON row of this size.
func (s *scan) growJSON(size int) error {
	if size > s.options.ResultBytesMax {
		return dberr.Invalidf("A row of the result exceeds the maximum size of %d bytes: select fewer or "+
			"smaller columns", s.options.ResultBytesMax)
	}
	if err := s.bind.Meter.Step(size / jsonBytes); err != nil {
		return err
	}
	return s.bind.Meter.Alloc(2 * size)
}

// jsonBytes is the number of JSON bytes that count as one step of work.
const jsonBytes = 16

// sortedRow holds the positions of a row's cells and its sort key.
type sortedRow struct{ cells, cellsEnd, key, keyEnd int }

// noteSorted records the sort key of the next row: the key forms of the ordering columns.
func (s *scan) noteSorted(clustering []byte) error {
	if len(s.page.Cells)+len(s.sortKeys)+sortedBytes*len(s.sorted) > s.options.SortBytesMax {
		return dberr.Invalidf("ORDER BY over several partitions exceeds %d bytes of memory: restrict the query",
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
	return s.bind.Meter.Keep(2*(r.keyEnd-r.key) + 2*sortedBytes)
}

// sortedBytes is the size of a sortedRow in memory.
const sortedBytes = 32

// sortRows sorts the rows of the page and truncates them at the limit.
func (s *scan) sortRows() error {
	for i := range s.sorted {
		s.sorted[i].cellsEnd = len(s.page.Cells)
		if i+1 < len(s.sorted) {
			s.sorted[i].cellsEnd = s.sorted[i+1].cells
		}
	}
	m := s.bind.Meter
	slices.SortFunc(s.sorted, func(a, b sortedRow) int {
		if m.Step(2) != nil {
			return 0 // the meter has an error, so the result is discarded
		}
		c := bytes.Compare(s.sortKeys[a.key:a.keyEnd], s.sortKeys[b.key:b.keyEnd])
		if s.plan.reversed {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.cells, b.cells))
	})
	if err := cmp.Or(m.Err(), m.Keep(len(s.page.Cells))); err != nil {
		return err
	}
	rows := s.sorted
	if int64(len(rows)) > s.trim {
		rows = rows[:s.trim]
	}
	out := make([]byte, 0, len(s.page.Cells))
	for _, r := range rows {
		out = append(out, s.page.Cells[r.cells:r.cellsEnd]...)
	}
	s.page.Cells, s.page.Rows = out, len(rows)
	return nil
}

// jsonName returns the JSON key of a column, including the colon.
func jsonName(name string) string {
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			name = `"` + name + `"`
			break
		}
	}
	return string(cqltype.AppendJSONString(nil, name)) + ": "
}
