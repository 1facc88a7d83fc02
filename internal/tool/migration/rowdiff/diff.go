// SPDX-License-Identifier: Apache-2.0

package rowdiff

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Differ computes the changes that make a row of the target equal to the source.
type Differ struct {
	Layout *Layout
	// Bound is the time, in microseconds, up to which an earlier copy may have written data to the target. Older data
	// that no longer exists in the source is deleted. Newer data is kept, because other clients have written it. If
	// Bound is 0, all data is kept.
	Bound int64
	// Force overwrites the target with the source regardless of timestamps.
	Force bool
	// Now is the time at which the rows are read, in microseconds. Now is also the timestamp of data that has no
	// timestamp.
	Now int64
	// ValuesOnly ignores the timestamps and expiration times of cells.
	ValuesOnly bool
}

// Change describes how a row in the target differs, and how it must be changed.
type Change struct {
	// This field describes the difference. It is empty if the rows are equal.
	What string
	// Statements holds the statements that make the row equal to the source. The list is empty if the row does not
	// differ or must be kept.
	Statements []Statement
	// Deletes is set if the row is deleted. Kept is set if part of the row is newer than the source and is kept.
	Deletes, Kept bool
}

// write is a cell that will be written. A null value deletes the cell.
type write struct {
	column int
	cell   Cell
	null   bool
}

// Diff compares a row. One of the arguments may be nil.
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
		return Change{} // the cells on both sides expire at about the same time
	case target == nil:
		return d.missing(source)
	case !target.Static && (source == nil || source.ends):
		return d.gone(target)
	}
	return d.changed(source, target)
}

// gone deletes a row that no longer exists in the source.
func (d *Differ) gone(target *Row) Change {
	c := Change{What: "does not exist in the source", Deletes: true}
	at := target.Newest()
	switch {
	case at == unknown && d.Bound == 0 && d.Force:
		at = d.Now
	case at == unknown:
		at = d.Bound // if Bound is 0, nothing may be deleted
	}
	if at == 0 && !d.Force || at > d.Bound && !d.Force {
		c.Kept, c.Deletes = true, false
		return c
	}
	s := Statement{kind: deleteRow, row: target, time: at}
	if target.nulls > 0 && len(d.Layout.Regular) > 0 { // the row has no marker, so a DELETE would delete too much
		s.kind = update
		for i := range d.Layout.Regular {
			s.values = append(s.values, value{slot: slot{column: i}})
		}
	}
	c.Statements = []Statement{s}
	return c
}

// missing writes a row that the target does not contain.
func (d *Differ) missing(source *Row) Change {
	c := Change{What: "does not exist in the target"}
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

// ofRow returns the timestamp and the TTL of the newest cell. They apply to data of a new row without its own
// timestamp.
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

// left returns the remaining TTL of a cell in seconds. The value 0 means that the cell does not expire.
func left(ttl int32, at time.Time) int32 {
	if ttl == 0 {
		return 0
	}
	return max(1, ttl-int32(time.Since(at)/time.Second))
}

// ending is the time before its expiration from which a cell counts as expired. The margin is necessary because
// servers count whole seconds of their own clocks, and because the two sides are not read at the same time.
const ending = 5 * time.Second

// endsIn reports whether a cell expires within d. read is the time at which the cell was read.
func (c *Cell) endsIn(d time.Duration, read time.Time) bool {
	return c.ttl > 0 && time.Duration(c.ttl)*time.Second-time.Since(read) <= d
}

// living returns the row without the cells that expire soon.
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

// isEnding reports whether all cells of the row have expired or expire soon.
func (r *Row) isEnding() bool { return r != nil && r.ends }

// changed compares a row that exists on both sides. It also compares static cells.
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
	// The row may have been visible only because of the deleted cells.
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

// unmarked returns the time at which a row must be deleted before it is written. ok is true if all cells of the row
// expire. In this case, the row was deleted in the source, or it has lost its permanent data. Without the deletion,
// the row marker that an earlier pass wrote would be permanent. The deletion is older than all cells.
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
			// The cell on the other side has expired or expires soon.
		case t == nil:
			cell := *s
			if cell.time == unknown {
				cell.time = d.Now
			}
			cell.ttl = left(cell.ttl, source.at)
			c.differs(col, "does not exist in the target")
			writes = append(writes, write{column: i, cell: cell})
		case s == nil:
			c.differs(col, "does not exist in the source")
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

// both compares a cell that exists on both sides.
func (d *Differ) both(c *Change, col *Column, s, t *Cell, source *Row) (w write, ok bool) {
	same := bytes.Equal(s.value, t.value)
	cell := *s
	switch {
	case same && (d.ValuesOnly || s.time == unknown || t.time == unknown):
		return w, false
	case same && (s.time < t.time || s.time == t.time && (s.ttl == 0) == (t.ttl == 0)):
		return w, false
	case same:
		c.differs(col, "has a different timestamp")
	default:
		c.differs(col, "has a different value")
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

// list compares a list as a whole, because list elements have no keys.
func (d *Differ) list(c *Change, i int, col *Column, source, target *Row) (writes []write) {
	s, t := source.columns[i], target.columns[i]
	newer, here := newest(s), newest(t)
	same := slices.EqualFunc(s, t, func(a, b Cell) bool { return bytes.Equal(a.value, b.value) })
	if same && (d.ValuesOnly || newer <= here || newer == unknown) {
		return nil
	}
	switch {
	case same:
		c.differs(col, "has a different timestamp")
	case len(t) == 0:
		c.differs(col, "does not exist in the target")
	case len(s) == 0:
		c.differs(col, "does not exist in the source")
	default:
		c.differs(col, "has a different value")
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

// pairs returns the cells of both sides. It matches the cells by their keys. A missing cell is nil.
func pairs(source, target []Cell) func(yield func(s, t *Cell) bool) {
	return func(yield func(s, t *Cell) bool) {
		if len(source) <= 1 && len(target) <= 1 { // an example is a plain column, whose cells have no keys
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
		for i := range target { // keep the order in which the cells were read
			if here[string(target[i].key)] != nil && !yield(nil, &target[i]) {
				return
			}
		}
	}
}
