// SPDX-License-Identifier: Apache-2.0

package rowdiff

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// Column is a column with its type.
type Column struct {
	bulk.Column
	Type *cqltype.Type
	// Several is set if the column has one cell per element or field.
	Several bool
}

// quoted returns the name in CQL.
func (c *Column) quoted() string { return cqltype.QuoteName(c.Name) }

// Layout describes how the rows of a table are read and written.
type Layout struct {
	Table *bulk.Table
	// Partition and Clustering are the columns of the primary key. Static and Regular are the other columns.
	Partition, Clustering, Static, Regular []Column
	// Counters is set if all columns except the key are counters.
	Counters bool
}

// Describe reads the layout of a table from a server.
func Describe(c *rawclient.Conn, n bulk.Name) (*Layout, error) {
	t, err := bulk.Describe(c, n)
	if err != nil {
		return nil, err
	}
	r, err := c.Prepare("SELECT " + bulk.QuoteAll(t.Names(nil)) + " FROM " + n.String())
	if err != nil {
		return nil, err
	}
	if len(r.Columns) != len(t.Columns) {
		return nil, fmt.Errorf("the server describes %d columns of table %s, but returned %d", len(t.Columns), n,
			len(r.Columns))
	}
	l := &Layout{Table: t, Counters: t.Counters()}
	for i, c := range t.Columns {
		typ := r.Columns[i].Type
		several := (typ.IsCollection() || typ.Kind == cqltype.UDT) && !strings.HasPrefix(c.Type, "frozen<")
		col := Column{Column: c, Type: typ, Several: several && !c.IsKey()}
		switch c.Kind {
		case "partition_key":
			l.Partition = append(l.Partition, col)
		case "clustering":
			l.Clustering = append(l.Clustering, col)
		case "static":
			l.Static = append(l.Static, col)
		default:
			l.Regular = append(l.Regular, col)
		}
	}
	return l, nil
}

// columns returns the columns of a static row if static is true, and otherwise the columns of other rows.
func (l *Layout) columns(static bool) []Column {
	if static {
		return l.Static
	}
	return l.Regular
}

// Query is a query that reads rows with their timestamps.
type Query struct {
	layout *Layout
	text   string
	// elements is set if the server returns the timestamps of the elements of collections.
	elements bool
}

// Elements reports whether the server returns the timestamps of the cells of collections and user-defined types.
// Cassandra 5.0 and later do so. If the table has no such columns, the result is true.
func (q *Query) Elements() bool { return q.elements }

// Ask returns the query for a server. If the server supports it, the query includes the timestamps of elements.
func (l *Layout) Ask(c *rawclient.Conn) (*Query, error) {
	several := func(c Column) bool { return c.Several }
	q := &Query{layout: l, text: l.query(true), elements: true}
	_, err := c.Prepare(q.text)
	if err != nil && (slices.ContainsFunc(l.Static, several) || slices.ContainsFunc(l.Regular, several)) {
		q = &Query{layout: l, text: l.query(false)}
		_, err = c.Prepare(q.text)
	}
	return q, err
}

func (l *Layout) query(elements bool) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, c := range slices.Concat(l.Partition, l.Clustering) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.quoted())
	}
	for _, c := range slices.Concat(l.Static, l.Regular) {
		name := c.quoted()
		b.WriteString(", " + name)
		if l.timed(&c, elements) {
			b.WriteString(", writetime(" + name + "), ttl(" + name + ")")
		}
	}
	b.WriteString(" FROM " + l.Table.Name.String())
	return b.String()
}

// columns returns the number of columns of the result.
func (q *Query) columns() int {
	l := q.layout
	n := len(l.Partition) + len(l.Clustering)
	for _, c := range slices.Concat(l.Static, l.Regular) {
		if n++; l.timed(&c, q.elements) {
			n += 2
		}
	}
	return n
}

// timed reports whether a column is read with its timestamps.
func (l *Layout) timed(c *Column, elements bool) bool { return !l.Counters && (!c.Several || elements) }

// Range returns the query for the rows of a token range.
func (q *Query) Range(r bulk.TokenRange) string { return q.text + r.Where(q.layout.Table) }

// KeyText returns the key of a row in the form that a WHERE clause uses.
func (l *Layout) KeyText(r *Row) string {
	columns := slices.Concat(l.Partition, l.Clustering)
	var parts []string
	for i, v := range r.Key {
		value := "null"
		if v != nil {
			value = columns[i].Type.Format(v)
		}
		parts = append(parts, columns[i].quoted()+" = "+value)
	}
	text := strings.Join(parts, " AND ")
	if r.Static && len(l.Static) > 0 {
		text += " (static columns)"
	}
	return text
}

// cellsOf iterates over the elements of a value with several cells.
func (c *Column) cellsOf(value []byte, f func(key, value []byte)) {
	switch c.Type.Kind {
	case cqltype.Map:
		for k, v := range c.Type.Entries(value) {
			f(k, v)
		}
	case cqltype.Set:
		for _, v := range c.Type.Elements(value) {
			f(v, []byte{})
		}
	case cqltype.UDT:
		for i, v := range c.Type.Elements(value) {
			f([]byte{byte(i >> 8), byte(i)}, v)
		}
	default:
		for _, v := range c.Type.Elements(value) {
			f(nil, v)
		}
	}
}
