// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// resultWriter appends rows to a page. It computes the columns of a selection and reserves memory before the result
// grows.
type resultWriter struct {
	sel     *selection
	options *Options
	page    *Page
	bind    *expr.Bindings
	// paged reports whether the result is paged. It is false if the client does not request paging or if the result is
	// a single row.
	paged bool
	// lowMemory reports whether the page cannot grow because no memory is left.
	lowMemory bool
	// room is the number of bytes for which memory is reserved. rowBegin is the start offset of the current row.
	room, rowBegin int
	json           []byte
}

// full reports whether the page must end because of its size.
func (o *resultWriter) full() bool {
	return o.paged && (o.lowMemory || len(o.page.Cells) >= o.options.PageBytesMax)
}

// emit appends the current row to the page. It reserves memory before the result grows. If no memory is available, a
// page ends and an unpaged result is rejected.
func (o *resultWriter) emit() error {
	o.page.Rows++
	o.rowBegin = len(o.page.Cells)
	if o.sel.json {
		return o.emitJSON()
	}
	return o.emitCells()
}

// detached appends the current row to buf instead of the page. The meter counts the memory of the row.
func (o *resultWriter) detached(buf []byte) ([]byte, error) {
	before, held := o.page.Cells, o.page.Held
	o.page.Cells = buf
	o.room = min(memoryStep, o.options.ResultBytesMax)
	err := o.emit()
	o.page.Rows--
	buf, o.page.Cells = o.page.Cells, before
	if err == nil {
		err = o.bind.Meter.Keep(len(buf))
	}
	if more := o.page.Held - held; more > 0 && o.options.Memory != nil {
		o.options.Memory.Give(more)
		o.page.Held = held
	}
	return buf, err
}

// makeRoom reserves memory for n more bytes of the result.
func (o *resultWriter) makeRoom(n int) error {
	need := len(o.page.Cells) + n
	switch {
	case need-o.rowBegin > o.options.ResultBytesMax:
		return dberr.Invalidf("A row of the result exceeds the maximum size of %d bytes: select fewer or "+
			"smaller columns", o.options.ResultBytesMax)
	case !o.paged && need > o.options.ResultBytesMax:
		return dberr.Invalidf("The result exceeds %d bytes, the maximum size of an unpaged result: set a page "+
			"size or a LIMIT", o.options.ResultBytesMax)
	}
	if more := need - o.page.Held; o.options.Memory != nil && more > memoryStep {
		if err := o.reserve(more, need-o.rowBegin); err != nil {
			return err
		}
	}
	o.room = min(need+memoryStep, max(need, o.rowBegin+o.options.ResultBytesMax))
	if !o.paged {
		o.room = min(o.room, max(need, o.options.ResultBytesMax))
	}
	return nil
}

// largeRow is the minimum size of a row that requires a separate memory reservation. If no memory is available, a large
// row is rejected, but a smaller row can still be added as the last row of a page.
const largeRow = 256 << 10

// reserve reserves memory for a growing result. row is the current size of the row.
func (o *resultWriter) reserve(more, row int) error {
	m := o.options.Memory
	if o.paged {
		if o.lowMemory = !m.Spare(more); o.lowMemory && row <= largeRow {
			return nil
		}
	}
	if o.lowMemory || !o.paged {
		if err := m.Take(more); err != nil {
			return err
		}
	}
	o.page.Held += more
	return nil
}

func (o *resultWriter) emitCells() error {
	cells := o.page.Cells
	for i := range o.sel.outputs {
		c := &o.sel.outputs[i]
		var v []byte
		if c.slot >= 0 {
			v = o.bind.Row[c.slot]
		} else {
			var err error
			mark := o.bind.Meter.Mark()
			if v, err = o.compute(c); err != nil {
				return err
			}
			o.bind.Meter.Release(mark)
		}
		if len(cells)+4+len(v) > o.room {
			o.page.Cells = cells
			if err := o.makeRoom(4 + len(v)); err != nil {
				return err
			}
		}
		cells = appendCell(grown(cells, 4+len(v), o.rowBegin+o.options.ResultBytesMax), v)
	}
	o.page.Cells = cells
	return nil
}

// grown returns a buffer with room for n more bytes. The capacity does not exceed most unless n requires a larger
// buffer. The built-in append enlarges a large buffer by only a quarter at a time, which produces more garbage.
func grown(b []byte, n, most int) []byte {
	need := len(b) + n
	if need <= cap(b) || need < largeRow {
		return b
	}
	return append(make([]byte, 0, max(need, min(2*need, most))), b...)
}

// compute evaluates an output that is not a plain column.
func (o *resultWriter) compute(c *output) ([]byte, error) {
	v, state, err := c.term.Eval(o.bind)
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

// emitJSON appends the row as one JSON object. Column names with capital letters are quoted like identifiers.
func (o *resultWriter) emitJSON() error {
	out := append(o.json[:0], '{')
	before := o.bind.Meter.Mark()
	for i := range o.sel.outputs {
		c := &o.sel.outputs[i]
		var v []byte
		mark := o.bind.Meter.Mark()
		if c.slot >= 0 {
			v = o.bind.Row[c.slot]
		} else {
			var err error
			if v, err = o.compute(c); err != nil {
				return err
			}
		}
		size := len(c.jsonName) + c.typ.JSONSize(v, o.options.ResultBytesMax)
		if len(out)+size > cap(out) {
			if err := o.growJSON(len(out) + size); err != nil {
				return err
			}
			mark = o.bind.Meter.Mark()
			out = grown(out, size, o.options.ResultBytesMax)
			out = slices.Grow(out, size)
		}
		if i > 0 {
			out = append(out, ", "...)
		}
		out = append(out, c.jsonName...)
		if v == nil {
			out = append(out, "null"...)
		} else {
			out = c.typ.AppendJSON(out, v)
		}
		o.bind.Meter.Release(mark)
	}
	o.json = append(out, '}')
	o.bind.Meter.Release(before)
	if len(o.page.Cells)+4+len(o.json) > o.room {
		if err := o.makeRoom(4 + len(o.json)); err != nil {
			return err
		}
	}
	o.page.Cells = appendCell(o.page.Cells, o.json)
	return nil
}

// growJSON reserves memory for a JSON row.
func (o *resultWriter) growJSON(size int) error {
	if size > o.options.ResultBytesMax {
		return dberr.Invalidf("A row of the result exceeds the maximum size of %d bytes: select fewer or "+
			"smaller columns", o.options.ResultBytesMax)
	}
	if err := o.bind.Meter.Step(size / jsonBytes); err != nil {
		return err
	}
	return o.bind.Meter.Alloc(2 * size)
}

// jsonBytes is the number of JSON bytes that the meter counts as one step.
const jsonBytes = 16

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
