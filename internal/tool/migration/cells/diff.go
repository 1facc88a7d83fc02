// SPDX-License-Identifier: Apache-2.0

package cells

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Differ says what is to be written so that a row of the target is as it is in the source.
type Differ struct {
	Layout *Layout
	// Bound is the time, in microseconds, behind which nothing in the target is of an earlier copy: what is older and
	// not in the source any more is deleted, what is newer was written by somebody else and stays. 0 has all stay.
	Bound int64
	// Force has what is in the source take the place of whatever the target has.
	Force bool
	// Now is when the rows are read, in microseconds: the time of what has none.
	Now int64
	// ValuesOnly ignores when cells were written, and whether they end.
	ValuesOnly bool
}

// Change is how a row of the target differs, and what is to be done about it.
type Change struct {
	// What says how it differs, "" if it does not.
	What string
	// Statements make it as it is in the source; none if it does not differ or is to stay.
	Statements []Statement
	// Deletes says that the row is deleted; Kept, that something of it is newer than the source's.
	Deletes, Kept bool
}

// write is a cell to write: null deletes it.
type write struct {
	column int
	cell   Cell
	null   bool
}

// Diff compares a row; one of both may be nil.
func (d *Differ) Diff(source, target *Row) Change {
	if d.Layout.Counters {
		return d.counters(source, target)
	}
	source, target = source.living(ending), target.living(ending)
	switch {
	case source == nil && target == nil:
		return Change{}
	case (source == nil || source.ends) && target.living(2*ending).isEnding(),
		(target == nil || target.ends) && source.living(2*ending).isEnding():
		return Change{} // it ends on both sides at about this time
	case target == nil:
		return d.missing(source)
	case !target.Static && (source == nil || source.ends):
		return d.gone(target)
	}
	return d.changed(source, target)
}

// gone deletes a row that is not in the source any more.
func (d *Differ) gone(target *Row) Change {
	c := Change{What: "is not in the source", Deletes: true}
	at := target.Newest()
	switch {
	case at == unknown && d.Bound == 0 && d.Force:
		at = d.Now
	case at == unknown:
		at = d.Bound // 0: nothing may be deleted
	}
	if at == 0 && !d.Force || at > d.Bound && !d.Force {
		c.Kept, c.Deletes = true, false
		return c
	}
	s := Statement{kind: deleteRow, row: target, time: at}
	if target.nulls > 0 && len(d.Layout.Regular) > 0 { // a DELETE would delete more: the row is its cells
		s.kind = update
		for i := range d.Layout.Regular {
			s.values = append(s.values, value{slot: slot{column: i}})
		}
	}
	c.Statements = []Statement{s}
	return c
}

// missing writes a row that the target does not have.
func (d *Differ) missing(source *Row) Change {
	c := Change{What: "is not here"}
	newest, ttl := d.ofRow(source)
	var writes []write
	for i, cells := range source.columns {
		for _, cell := range cells {
			if cell.time == unknown {
				cell.time, cell.ttl = newest, ttl
			}
			cell.ttl = left(cell.ttl, source.at)
			writes = append(writes, write{column: i, cell: cell})
		}
	}
	c.Statements = d.statements(source, writes, !source.Static)
	return c
}

// ofRow is the time of what has none of its own in a new row, and its TTL: those of the newest cell.
func (d *Differ) ofRow(r *Row) (newest int64, ttl int32) {
	newest = unknown
	for _, cells := range r.columns {
		for _, c := range cells {
			if c.time != unknown && c.time >= newest {
				newest, ttl = c.time, c.ttl
			}
		}
	}
	if newest == unknown {
		return d.Now, 0
	}
	return newest, ttl
}

// left is how many seconds a cell has left now, of those that it had when it was read; 0 has no end.
func left(ttl int32, at time.Time) int32 {
	if ttl == 0 {
		return 0
	}
	return max(1, ttl-int32(time.Since(at)/time.Second))
}

// ending is how long before its end a cell is taken to have ended: servers count in whole seconds, each by its clock,
// and both sides are not read at the same instant.
const ending = 5 * time.Second

// endsIn says whether a cell that was read then has no more than so long left.
func (c *Cell) endsIn(d time.Duration, read time.Time) bool {
	return c.ttl > 0 && time.Duration(c.ttl)*time.Second-time.Since(read) <= d
}

// living is the row without the cells that end within a while.
func (r *Row) living(within time.Duration) *Row {
	if r == nil {
		return nil
	}
	gone := func(c Cell) bool { return c.endsIn(within, r.at) }
	if !slices.ContainsFunc(r.columns, func(l []Cell) bool { return slices.ContainsFunc(l, gone) }) {
		return r
	}
	l := *r
	l.columns = make([][]Cell, len(r.columns))
	for i, cells := range r.columns {
		l.columns[i] = slices.DeleteFunc(slices.Clone(cells), gone)
	}
	l.ends = l.empty()
	return &l
}

// isEnding says that the row had cells, and that none of them lives on.
func (r *Row) isEnding() bool { return r != nil && r.ends }

// changed compares a row that both have, or static cells.
func (d *Differ) changed(source, target *Row) Change {
	var c Change
	row, nothing := source, false
	if source == nil {
		row, source = target, &Row{Static: true, columns: make([][]Cell, len(target.columns)), at: target.at}
	}
	var writes []write
	for i := range d.Layout.columns(target.Static) {
		col := &d.Layout.columns(target.Static)[i]
		var found []write
		if col.Several && col.Type.Kind == cqltype.List {
			found = d.list(&c, i, col, source, target)
		} else {
			found = d.cells(&c, i, col, source, target)
		}
		writes = append(writes, found...)
	}
	for _, w := range writes {
		nothing = nothing || w.null
	}
	// What is deleted may have been all that kept the row visible.
	marker := !row.Static && nothing && source.empty()
	if len(writes) > 0 {
		c.Statements = d.statements(row, writes, false)
		if marker {
			c.Statements = append(c.Statements, Statement{kind: insert, row: row, time: d.Now})
		}
		if at, ok := d.unmarked(source); ok {
			c.Statements = append([]Statement{{kind: deleteRow, row: row, time: at}}, c.Statements...)
		}
	}
	return c
}

// unmarked is when a row is to be deleted before it is written, if all its cells end: it was deleted in the source, or
// has lost what does not end, and what an earlier pass has written to have it stay would stay for ever. The deletion is
// older than all its cells.
func (d *Differ) unmarked(source *Row) (at int64, ok bool) {
	if source.Static || source.nulls > 0 || source.empty() || d.Bound == 0 && !d.Force {
		return 0, false
	}
	at = math.MaxInt64
	for _, cells := range source.columns {
		for _, c := range cells {
			if c.ttl == 0 || c.time == unknown {
				return 0, false
			}
			at = min(at, c.time-1)
		}
	}
	if !d.Force {
		at = min(at, d.Bound)
	}
	return at, true
}

func (c *Change) differs(col *Column, how string) {
	if c.What == "" {
		c.What = col.quoted() + " " + how
	}
}

// cells compares the cells of a column by their keys.
func (d *Differ) cells(c *Change, i int, col *Column, source, target *Row) (writes []write) {
	for s, t := range pairs(source.columns[i], target.columns[i]) {
		switch {
		case t == nil && s.endsIn(2*ending, source.at), s == nil && t.endsIn(2*ending, target.at):
			// The other side has ended, or is about to.
		case t == nil:
			cell := *s
			if cell.time == unknown {
				cell.time = d.Now
			}
			cell.ttl = left(cell.ttl, source.at)
			c.differs(col, "is not here")
			writes = append(writes, write{column: i, cell: cell})
		case s == nil:
			c.differs(col, "is not in the source")
			at := t.time
			if at == unknown {
				at = d.Bound
			}
			if !d.Force && (at > d.Bound || d.Bound == 0) {
				c.Kept = true
				continue
			}
			writes = append(writes, write{column: i, cell: Cell{key: t.key, time: at}, null: true})
		default:
			if w, ok := d.both(c, col, s, t, source); ok {
				w.column = i
				writes = append(writes, w)
			}
		}
	}
	return writes
}

// both compares a cell that both have.
func (d *Differ) both(c *Change, col *Column, s, t *Cell, source *Row) (w write, ok bool) {
	same := bytes.Equal(s.value, t.value)
	cell := *s
	switch {
	case same && (d.ValuesOnly || s.time == unknown || t.time == unknown):
		return w, false
	case same && (s.time < t.time || s.time == t.time && (s.ttl == 0) == (t.ttl == 0)):
		return w, false
	case same:
		c.differs(col, "was written at another time")
	default:
		c.differs(col, "has another value")
	}
	if cell.time == unknown {
		cell.time = d.Now
	}
	if t.time != unknown && cell.time < t.time {
		if !d.Force {
			c.Kept = true
			return w, false
		}
		cell.time = t.time + 1
	}
	cell.ttl = left(s.ttl, source.at)
	return write{cell: cell}, true
}

// list compares a list as a whole: its elements have no key by which they could be told apart.
func (d *Differ) list(c *Change, i int, col *Column, source, target *Row) (writes []write) {
	s, t := source.columns[i], target.columns[i]
	newer, here := newest(s), newest(t)
	same := slices.EqualFunc(s, t, func(a, b Cell) bool { return bytes.Equal(a.value, b.value) })
	if same && (d.ValuesOnly || newer <= here || newer == unknown) {
		return nil
	}
	switch {
	case same:
		c.differs(col, "was written at another time")
	case len(t) == 0:
		c.differs(col, "is not here")
	case len(s) == 0:
		c.differs(col, "is not in the source")
	default:
		c.differs(col, "has another value")
	}
	least := int64(math.MinInt64)
	if len(t) > 0 {
		if here == unknown {
			here = d.Bound
		}
		if !d.Force && newer < here && here > d.Bound {
			c.Kept = true
			return nil
		}
		writes = append(writes, write{column: i, cell: Cell{time: here}, null: true})
		least = here + 1
	}
	for _, cell := range s {
		if cell.time == unknown {
			cell.time = d.Now
		}
		cell.time = max(cell.time, least)
		cell.ttl = left(cell.ttl, source.at)
		writes = append(writes, write{column: i, cell: cell})
	}
	return writes
}

func newest(cells []Cell) int64 {
	at := int64(unknown)
	for _, c := range cells {
		at = max(at, c.time)
	}
	return at
}

// pairs yields the cells of both, matched by their keys: nil where one has none.
func pairs(source, target []Cell) func(yield func(s, t *Cell) bool) {
	return func(yield func(s, t *Cell) bool) {
		if len(source) <= 1 && len(target) <= 1 { // as of plain columns
			switch {
			case len(source) == 0 && len(target) == 0:
				return
			case len(source) == 0:
				yield(nil, &target[0])
				return
			case len(target) == 0:
				yield(&source[0], nil)
				return
			case bytes.Equal(source[0].key, target[0].key):
				yield(&source[0], &target[0])
				return
			}
		}
		here := make(map[string]*Cell, len(target))
		for i := range target {
			here[string(target[i].key)] = &target[i]
		}
		for i := range source {
			t := here[string(source[i].key)]
			delete(here, string(source[i].key))
			if !yield(&source[i], t) {
				return
			}
		}
		for i := range target { // in the order in which they were read
			if here[string(target[i].key)] != nil && !yield(nil, &target[i]) {
				return
			}
		}
	}
}
