// SPDX-License-Identifier: Apache-2.0

package rowdiff

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// form identifies the prepared statement for a Statement.
type form struct {
	kind   kind
	static bool
	// nulls is the number of trailing clustering columns that are null. The statement omits these columns.
	nulls int
	// list is the column that a statement of kind deleteLists deletes.
	list int
}

// Prepared holds the prepared statements of a table on a server.
type Prepared struct {
	layout *Layout
	conn   *rawclient.Conn
	forms  map[form]*prepared
}

type prepared struct {
	id []byte
	n  int
	// slots, keys, time, and ttl are the positions of bind variables, or -1.
	slots     map[slot]int
	keys      []int
	time, ttl int
}

// Prepare returns an empty set of prepared statements. Each statement is prepared over the connection when it is first
// used.
func (l *Layout) Prepare(c *rawclient.Conn) *Prepared {
	return &Prepared{layout: l, conn: c, forms: map[form]*prepared{}}
}

// Bound is a statement with its values.
type Bound struct {
	ID     []byte
	Values [][]byte
	Unset  []bool
}

// ErrPrefix is returned for a statement that deletes a row whose last clustering columns are null. It is returned if
// the table has only key columns.
var ErrPrefix = errors.New("cannot delete a row with null in its clustering key: a DELETE by the other " +
	"columns would also delete other rows")

// Bind converts a statement to a bound statement.
func (p *Prepared) Bind(s *Statement) (Bound, error) {
	f := form{kind: s.kind, static: s.row.Static, nulls: s.row.nulls}
	if f.kind == deleteRow && f.nulls > 0 {
		return Bound{}, ErrPrefix
	}
	if s.kind == deleteLists {
		f.list = s.values[0].column
	}
	st := p.forms[f]
	if st == nil {
		text := ""
		text, st = p.layout.form(f)
		r, err := p.conn.Prepare(text)
		if err != nil {
			return Bound{}, err
		}
		st.id = slices.Clone(r.ID)
		p.forms[f] = st
	}
	b := Bound{ID: st.id, Values: make([][]byte, st.n), Unset: make([]bool, st.n)}
	for i := range b.Unset {
		b.Unset[i] = true
	}
	set := func(i int, v []byte) { b.Values[i], b.Unset[i] = v, false }
	for i, k := range st.keys {
		set(k, s.row.Key[i])
	}
	if s.kind != deleteLists {
		for _, v := range s.values {
			set(st.slots[v.slot], v.wire)
		}
	}
	if st.time >= 0 {
		set(st.time, binary.BigEndian.AppendUint64(nil, uint64(s.time)))
	}
	if st.ttl >= 0 {
		set(st.ttl, binary.BigEndian.AppendUint32(nil, uint32(s.ttl)))
	}
	return b, nil
}

// bind returns the next bind variable.
func (st *prepared) bind() int {
	st.n++
	return st.n - 1
}

// form returns the text of a statement.
func (l *Layout) form(f form) (string, *prepared) {
	st := &prepared{slots: map[slot]int{}, time: -1, ttl: -1}
	columns, table := l.columns(f.static), l.Table.Name.String()
	switch f.kind {
	case insert:
		return l.insert(st, f, table), st
	case deleteRow, deleteLists:
		text := "DELETE "
		if f.kind == deleteLists {
			text += columns[f.list].quoted() + " "
		}
		text += "FROM " + table
		if !l.Counters {
			st.time = st.bind()
			text += " USING TIMESTAMP ?"
		}
		return text + l.where(st, f), st
	}
	text := "UPDATE " + table
	if f.kind != count {
		st.time = st.bind()
		text += " USING TIMESTAMP ?"
	}
	if f.kind == update {
		st.ttl = st.bind()
		text += " AND TTL ?"
	}
	var sets []string
	for i := range columns {
		sets = append(sets, l.assign(st, f.kind, i, &columns[i])...)
	}
	return text + " SET " + strings.Join(sets, ", ") + l.where(st, f), st
}

// assign returns the assignments to a column in an UPDATE.
func (l *Layout) assign(st *prepared, k kind, i int, c *Column) (sets []string) {
	name := c.quoted()
	add := func(text string, field int) {
		st.slots[slot{i, field}] = st.bind()
		sets = append(sets, text)
	}
	keyed := c.Several && (c.Type.Kind == cqltype.Map || c.Type.Kind == cqltype.Set)
	switch {
	case k == remove && keyed:
		add(name+" = "+name+" - ?", 0)
	case k == remove:
	case k == count || c.Several && c.Type.Kind != cqltype.UDT:
		add(name+" = "+name+" + ?", 0)
	case c.Several:
		for j, field := range c.Type.Fields {
			add(name+"."+cqltype.QuoteName(field)+" = ?", j)
		}
	default:
		add(name+" = ?", 0)
	}
	return sets
}

// key returns the columns that identify a row.
func (l *Layout) key(f form) []Column {
	if f.static {
		return l.Partition
	}
	return slices.Concat(l.Partition, l.Clustering[:len(l.Clustering)-f.nulls])
}

func (l *Layout) insert(st *prepared, f form, table string) string {
	columns := l.columns(f.static)
	var names []string
	for _, c := range slices.Concat(l.Partition, l.Clustering[:len(l.Clustering)-f.nulls]) {
		names, st.keys = append(names, c.quoted()), append(st.keys, st.bind())
	}
	for i := range columns {
		if !columns[i].Several {
			st.slots[slot{i, 0}] = st.bind()
			names = append(names, columns[i].quoted())
		}
	}
	st.time, st.ttl = st.bind(), st.bind()
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(names)-1) + ") USING TIMESTAMP ? AND TTL ?"
}

// where returns the condition on the key.
func (l *Layout) where(st *prepared, f form) string {
	var parts []string
	for _, c := range l.key(f) {
		st.keys = append(st.keys, st.bind())
		parts = append(parts, c.quoted()+" = ?")
	}
	return " WHERE " + strings.Join(parts, " AND ")
}
