// SPDX-License-Identifier: Apache-2.0

package schemadiff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk"
)

// These are the kinds of objects, with the names that DESCRIBE uses.
const (
	Keyspace  = "keyspace"
	Type      = "type"
	Function  = "function"
	Aggregate = "aggregate"
	Table     = "table"
	Index     = "index"
	View      = "materialized_view"
)

// Object is an object of a schema.
type Object struct {
	Keyspace, Kind, Name string
	// Text is the statement that creates the object.
	Text string
	// Table is the table of an index or a view.
	Table string
}

// String returns a description for users.
func (o Object) String() string {
	if o.Kind == Keyspace {
		return "keyspace " + cqltype.QuoteName(o.Keyspace)
	}
	name := o.Name
	if o.Kind != Function && o.Kind != Aggregate { // their names include the arguments
		name = cqltype.QuoteName(name)
	}
	return plain(strings.ReplaceAll(o.Kind, "_", " ") + " " + cqltype.QuoteName(o.Keyspace) + "." + name)
}

// name returns the name of a table.
func (o Object) name() bulk.Name { return bulk.Name{Keyspace: o.Keyspace, Table: o.Name} }

// Selection selects part of a schema.
type Selection struct {
	// Keyspaces are the selected keyspaces. If Keyspaces is empty, all keyspaces except system keyspaces are selected.
	Keyspaces []string
	// Tables are the selected tables. If Tables is empty, all tables of the keyspaces are selected. Exclude contains
	// tables to omit.
	Tables, Exclude []bulk.Name
}

// Names converts names of keyspaces that a user entered. It converts names without double quotes to lower case.
func Names(typed []string) (names []string) {
	for _, s := range typed {
		names = append(names, cqltype.JSONName(s))
	}
	return names
}

// takes reports whether a table is selected.
func (s Selection) takes(n bulk.Name) bool {
	return !slices.Contains(s.Exclude, n) && (len(s.Tables) == 0 || slices.Contains(s.Tables, n))
}

// Read reads the objects of a schema, in an order in which they can be created. Read returns an error if a selected
// object does not exist.
func Read(ctx context.Context, r *bulk.Reader, s Selection) ([]Object, error) {
	keyspaces, err := s.keyspaces(ctx, r)
	if err != nil {
		return nil, err
	}
	var all []Object
	for _, ks := range keyspaces {
		found, err := describe(ctx, r, ks)
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			table := bulk.Name{Keyspace: ks, Table: o.Table}
			if o.Table == "" || s.takes(table) {
				all = append(all, o)
			}
		}
	}
	for _, n := range slices.Concat(s.Tables, s.Exclude) {
		there := slices.ContainsFunc(all, func(o Object) bool { return o.Kind == Table && o.name() == n })
		if !there && slices.Contains(s.Tables, n) && !slices.Contains(s.Exclude, n) {
			return nil, fmt.Errorf("table %s does not exist in the source", n)
		}
	}
	order := []string{Keyspace, Type, Function, Aggregate, Table, Index, View}
	slices.SortStableFunc(all, func(a, b Object) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	return all, nil
}

// keyspaces returns the names of the selected keyspaces.
func (s Selection) keyspaces(ctx context.Context, r *bulk.Reader) (names []string, err error) {
	all := map[string]bool{}
	err = rows(ctx, r, 1, "SELECT keyspace_name FROM system_schema.keyspaces", func(row []string) {
		all[row[0]] = true
	})
	if err != nil {
		return nil, err
	}
	want := slices.Clone(s.Keyspaces)
	for _, n := range s.Tables {
		want = append(want, n.Keyspace)
	}
	for _, ks := range want {
		if !all[ks] {
			return nil, fmt.Errorf("keyspace %s does not exist in the source", cqltype.QuoteName(ks))
		}
	}
	if len(want) == 0 {
		for ks := range all {
			if ks != "system" && !strings.HasPrefix(ks, "system_") {
				want = append(want, ks)
			}
		}
	}
	slices.Sort(want)
	return slices.Compact(want), nil
}

// describe returns the server's description of a keyspace.
func describe(ctx context.Context, r *bulk.Reader, ks string) (found []Object, err error) {
	belongs := map[string]string{}
	for _, q := range []string{"index_name, table_name FROM system_schema.indexes",
		"view_name, base_table_name FROM system_schema.views"} {
		err := rows(ctx, r, 2, "SELECT "+q+" WHERE keyspace_name = "+bulk.Quote(ks), func(row []string) {
			belongs[row[0]] = row[1]
		})
		if err != nil {
			return nil, err
		}
	}
	err = rows(ctx, r, 4, "DESCRIBE KEYSPACE "+cqltype.QuoteName(ks), func(row []string) {
		o := Object{Keyspace: row[0], Kind: row[1], Name: cqltype.JSONName(row[2]), Text: compact(row[3])}
		switch o.Kind {
		case Function, Aggregate:
			o.Name = row[2]
		case Table:
			o.Table = o.Name
		case Index, View:
			o.Table = belongs[o.Name]
		}
		found = append(found, o)
	})
	return found, err
}

// compact returns the statement that Cassandra puts into a comment for a table WITH COMPACT STORAGE, without the order
// of a clustering column that does not exist.
func compact(text string) string {
	comment, ok := strings.CutPrefix(text, "/*")
	if !ok {
		return text
	}
	_, text, _ = strings.Cut(comment, "CREATE TABLE ")
	text, _, _ = strings.Cut(text, "*/")
	if !strings.Contains(text, "\n    column1 ") {
		text = strings.Replace(text, "    AND CLUSTERING ORDER BY (column1 ASC)\n", "", 1)
	}
	return "CREATE TABLE " + text
}

// rows calls f with the rows of a query with n columns.
func rows(ctx context.Context, r *bulk.Reader, n int, text string, f func(row []string)) error {
	return r.Pages(ctx, text, func(p *cqlwire.Result) error {
		if p.Kind != cqlwire.ResultRows || p.ColumnCount != n {
			return errors.New("unexpected result of the server: " + text)
		}
		return bulk.EachRow(p, func(row [][]byte) error {
			texts := make([]string, len(row))
			for i, v := range row {
				texts[i] = string(v)
			}
			f(texts)
			return nil
		})
	})
}
