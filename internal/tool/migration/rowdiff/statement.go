// SPDX-License-Identifier: Apache-2.0

package rowdiff

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// kind is the type of a statement.
type kind uint8

const (
	// insert writes plain columns and the row marker.
	insert kind = iota
	// update writes cells, including plain columns that are null.
	update
	// remove deletes elements of sets and maps.
	remove
	// deleteLists deletes lists.
	deleteLists
	deleteRow
	// count adds to counters.
	count
)

// Statement is a statement to execute.
type Statement struct {
	kind kind
	row  *Row
	time int64
	ttl  int32
	// values holds the values by column. The value nil represents null. If a column has no value, it does not change.
	values []value
}

// slot is a column, or a field of a column that has several fields.
type slot struct{ column, field int }

// value is the value of a slot.
type value struct {
	slot
	wire []byte
}

// numbers is the type of a list of timestamps.
var numbers = cqltype.ListOf(cqltype.Native(cqltype.Bigint))

// statements returns the statements that write cells. It returns one statement per timestamp and TTL, and the oldest
// statement is first. marker is set if the row is new.
func (d *Differ) statements(r *Row, writes []write, marker bool) []Statement {
	columns := d.Layout.columns(r.Static)
	var lists, others []write
	for _, w := range writes {
		if c := &columns[w.column]; c.Several && c.Type.Kind == cqltype.List {
			lists = append(lists, w)
		} else {
			others = append(others, w)
		}
	}
	slices.SortStableFunc(others, func(a, b write) int {
		return cmp.Or(cmp.Compare(a.cell.time, b.cell.time), cmp.Compare(a.cell.ttl, b.cell.ttl))
	})
	var out []Statement
	for len(others) > 0 {
		first := others[0].cell
		n := 1
		for n < len(others) && others[n].cell.time == first.time && others[n].cell.ttl == first.ttl {
			n++
		}
		out = append(out, d.group(r, columns, others[:n], marker && len(out) == 0)...)
		others = others[n:]
	}
	if marker && len(out) == 0 {
		at, ttl := d.Now, int32(0)
		if len(lists) > 0 {
			at, ttl = lists[0].cell.time, lists[0].cell.ttl
		}
		out = append(out, Statement{kind: insert, row: r, time: at, ttl: ttl})
	}
	return append(out, d.lists(r, lists)...)
}

// group returns the statements for cells with the same timestamp and TTL.
func (d *Differ) group(r *Row, columns []Column, writes []write, marker bool) (out []Statement) {
	at := writes[0].cell
	plain := Statement{kind: insert, row: r, time: at.time, ttl: at.ttl}
	more := Statement{kind: update, row: r, time: at.time, ttl: at.ttl}
	gone := Statement{kind: remove, row: r, time: at.time}
	if !marker {
		plain.kind = update
	}
	added, removed := map[int][][]byte{}, map[int][][]byte{}
	for _, w := range writes {
		switch c := &columns[w.column]; {
		case !c.Several:
			plain.values = append(plain.values, value{slot{w.column, 0}, w.cell.value})
		case c.Type.Kind == cqltype.UDT:
			more.values = append(more.values, value{slot{w.column, int(binary.BigEndian.Uint16(w.cell.key))},
				w.cell.value})
		case w.null:
			removed[w.column] = append(removed[w.column], w.cell.key)
		case c.Type.Kind == cqltype.Map:
			added[w.column] = append(added[w.column], w.cell.key, w.cell.value)
		default:
			added[w.column] = append(added[w.column], w.cell.key)
		}
	}
	for i := range columns {
		if e := added[i]; e != nil {
			more.values = append(more.values, value{slot{i, 0}, columns[i].Type.AppendCollection(nil, e...)})
		}
		if e := removed[i]; e != nil {
			set := cqltype.SetOf(columns[i].Type.Elems[0])
			gone.values = append(gone.values, value{slot{i, 0}, set.AppendCollection(nil, e...)})
		}
	}
	if !marker { // a single statement has both effects
		plain.values = append(plain.values, more.values...)
		more.values = nil
	}
	for _, s := range []Statement{gone, plain, more} {
		if len(s.values) > 0 || s.kind == insert {
			out = append(out, s)
		}
	}
	return out
}

// lists returns the statements that write lists. Each list is deleted, and then its elements are appended in order.
func (d *Differ) lists(r *Row, writes []write) (out []Statement) {
	columns := d.Layout.columns(r.Static)
	for i := 0; i < len(writes); {
		w := writes[i]
		if w.null {
			out = append(out, Statement{kind: deleteLists, row: r, time: w.cell.time,
				values: []value{{slot: slot{column: w.column}}}})
			i++
			continue
		}
		var run [][]byte
		for ; i < len(writes); i++ {
			o := writes[i]
			if o.null || o.column != w.column || o.cell.time != w.cell.time || o.cell.ttl != w.cell.ttl {
				break
			}
			run = append(run, o.cell.value)
		}
		out = append(out, Statement{kind: update, row: r, time: w.cell.time, ttl: w.cell.ttl,
			values: []value{{slot{w.column, 0}, columns[w.column].Type.AppendCollection(nil, run...)}}})
	}
	return out
}

// counters compares a row with counters. The differences are added to the counters.
func (d *Differ) counters(source, target *Row) Change {
	if source == nil {
		c := Change{What: "does not exist in the source", Deletes: true}
		if d.Bound == 0 && !d.Force {
			c.Kept, c.Deletes = true, false
			return c
		}
		s := Statement{kind: deleteRow, row: target}
		if target.Static || target.nulls > 0 {
			// These counters cannot be deleted without other rows, so they are reset by subtraction.
			return d.counters(&Row{Key: target.Key, Static: target.Static, nulls: target.nulls,
				columns: make([][]Cell, len(target.columns))}, target)
		}
		c.Statements = []Statement{s}
		return c
	}
	var c Change
	s := Statement{kind: count, row: source}
	columns := d.Layout.columns(source.Static)
	for i, cells := range source.columns {
		was := int64(0)
		there := target != nil && len(target.columns[i]) > 0
		if there {
			was = counted(target.columns[i])
		}
		by := counted(cells) - was
		if by == 0 && (there || len(cells) == 0) {
			continue
		}
		c.differs(&columns[i], "has a different value")
		s.values = append(s.values, value{slot{i, 0}, binary.BigEndian.AppendUint64(nil, uint64(by))})
	}
	if target == nil {
		c.What = "does not exist in the target"
	}
	if len(s.values) > 0 {
		c.Statements = []Statement{s}
	}
	return c
}

func counted(cells []Cell) int64 {
	if len(cells) == 0 || len(cells[0].value) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(cells[0].value))
}
