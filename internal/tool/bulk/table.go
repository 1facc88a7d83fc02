// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// Name is the name of a table.
type Name struct{ Keyspace, Table string }

// ParseName parses a name of the form KEYSPACE.TABLE. A part in double quotes is preserved. Other parts are converted
// to lower case.
func ParseName(s string) (Name, error) {
	i := strings.IndexByte(s, '.')
	if strings.HasPrefix(s, `"`) {
		i = strings.Index(s, `".`) + 1
	}
	if i <= 0 || i == len(s)-1 {
		return Name{}, fmt.Errorf("invalid table name %q: expected KEYSPACE.TABLE", s)
	}
	return Name{cqltype.JSONName(s[:i]), cqltype.JSONName(s[i+1:])}, nil
}

// String returns the name in CQL.
func (n Name) String() string {
	return cqltype.QuoteName(n.Keyspace) + "." + cqltype.QuoteName(n.Table)
}

// Column is a column as system_schema describes it.
type Column struct {
	Name string
	// Kind is partition_key, clustering, static, or regular.
	Kind string
	// Type is the text of the type.
	Type string
	// Descending reports whether a clustering column is in descending order.
	Descending bool
	position   int32
}

// String describes the column without its name.
func (c Column) String() string {
	text := c.Type + ", " + strings.ReplaceAll(c.Kind, "_", " ")
	if c.IsKey() {
		text += fmt.Sprintf(" %d", c.position+1)
	}
	if c.Descending {
		text += ", descending"
	}
	return text
}

// IsKey reports whether the column belongs to the primary key.
func (c Column) IsKey() bool { return c.Kind == "partition_key" || c.Kind == "clustering" }

// IsCounter reports whether the column is a counter.
func (c Column) IsCounter() bool { return c.Type == "counter" }

// Table is a table. Its columns are in the order of SELECT *. The partition key is first, followed by the clustering
// key and then by the other columns in the order of their names.
type Table struct {
	Name    Name
	Columns []Column
	// Prefixes is set if the last clustering columns of a row may be null. In this case, the table uses COMPACT
	// STORAGE.
	Prefixes bool
}

// Quote returns a string literal.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Describe reads the description of a table from the server.
func Describe(c *rawclient.Conn, n Name) (*Table, error) {
	r, err := c.Query("SELECT column_name, kind, position, type, clustering_order FROM system_schema.columns WHERE " +
		"keyspace_name = " +
		Quote(n.Keyspace) + " AND table_name = " + Quote(n.Table))
	if err == nil && r.ColumnCount != 5 {
		err = fmt.Errorf("the server returned %d columns instead of 5", r.ColumnCount)
	}
	if err != nil {
		return nil, err
	}
	t := &Table{Name: n}
	err = EachRow(r, func(row [][]byte) error {
		c := Column{Name: string(row[0]), Kind: string(row[1]), Type: string(row[3]),
			Descending: string(row[4]) == "desc"}
		if len(row[2]) == 4 {
			c.position = int32(binary.BigEndian.Uint32(row[2]))
		}
		t.Columns = append(t.Columns, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.Columns) == 0 {
		return nil, fmt.Errorf("table %s does not exist. Create it first, or check the spelling", n)
	}
	if err := t.visible(c); err != nil {
		return nil, err
	}
	rank := map[string]int{"partition_key": 0, "clustering": 1}
	of := func(c Column) int {
		if i, ok := rank[c.Kind]; ok {
			return i
		}
		return 2
	}
	slices.SortFunc(t.Columns, func(a, b Column) int {
		return cmp.Or(of(a)-of(b), int(a.position-b.position), strings.Compare(a.Name, b.Name))
	})
	return t, t.prefixes(c)
}

// prefixes determines whether the last clustering columns of a row may be null.
func (t *Table) prefixes(c *rawclient.Conn) error {
	if len(t.clustering()) < 2 {
		return nil
	}
	r, err := c.Query("SELECT flags FROM system_schema.tables WHERE keyspace_name = " + Quote(t.Name.Keyspace) +
		" AND table_name = " + Quote(t.Name.Table))
	if err == nil && r.ColumnCount != 1 {
		err = fmt.Errorf("the server returned %d columns instead of 1", r.ColumnCount)
	}
	if err != nil {
		return err
	}
	return EachRow(r, func(row [][]byte) error {
		for _, flag := range cqltype.SetOf(cqltype.Native(cqltype.Text)).Elements(row[0]) {
			t.Prefixes = t.Prefixes || string(flag) == "dense"
		}
		return nil
	})
}

// clustering returns the names of the clustering columns.
func (t *Table) clustering() []string {
	return t.Names(func(c Column) bool { return c.Kind == "clustering" })
}

// visible removes columns that statements cannot use. Cassandra describes a table WITH COMPACT STORAGE in the terms of
// Thrift. It contains a clustering column and a value column that do not exist, and describes the actual columns as
// static.
func (t *Table) visible(c *rawclient.Conn) error {
	r, err := c.Prepare("SELECT * FROM " + t.Name.String())
	if err != nil {
		return err
	}
	clustered, hidden := false, false
	t.Columns = slices.DeleteFunc(t.Columns, func(c Column) bool {
		there := slices.ContainsFunc(r.Columns, func(s cqlwire.Column) bool { return s.Name == c.Name })
		clustered = clustered || there && c.Kind == "clustering"
		hidden = hidden || !there
		return !there
	})
	for i := range t.Columns {
		if c := &t.Columns[i]; hidden && !clustered && c.Kind == "static" {
			c.Kind = "regular"
		}
	}
	return nil
}

// Names returns the names of the columns for which f returns true. If f is nil, it returns all names.
func (t *Table) Names(f func(Column) bool) (names []string) {
	for _, c := range t.Columns {
		if f == nil || f(c) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Column returns a column by its name.
func (t *Table) Column(name string) (Column, bool) {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return Column{}, false
	}
	return t.Columns[i], true
}

// Counters reports whether the table has counters.
func (t *Table) Counters() bool { return slices.ContainsFunc(t.Columns, Column.IsCounter) }

// QuoteAll returns names in CQL, separated by commas.
func QuoteAll(names []string) string {
	l := make([]string, len(names))
	for i, n := range names {
		l[i] = cqltype.QuoteName(n)
	}
	return strings.Join(l, ", ")
}

// TokenOf returns the CQL expression for the token of the table's partition key.
func (t *Table) TokenOf() string {
	return "token(" + QuoteAll(t.Names(func(c Column) bool { return c.Kind == "partition_key" })) + ")"
}

// EachRow calls f with each row of a result. The values refer to the result.
func EachRow(r *cqlwire.Result, f func(row [][]byte) error) error {
	row, cells := make([][]byte, r.ColumnCount), r.Cells
	for range r.RowCount {
		for i := range row {
			var ok bool
			if row[i], cells, ok = cqlwire.NextCell(cells); !ok {
				return fmt.Errorf("the result with %d rows is truncated", r.RowCount)
			}
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return nil
}
