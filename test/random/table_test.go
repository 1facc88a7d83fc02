// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"slices"
	"strings"
)

// smallScalars contains native types with few values, so rows, elements, and conditions often match.
var smallScalars = map[string][]string{
	"int": {"0", "1", "2", "3", "-1"}, "bigint": {"0", "1", "2", "9223372036854775807"},
	"smallint": {"0", "1", "2"}, "text": {"''", "'a'", "'b'", "'ä'"}, "ascii": {"'a'", "'b'", "''"},
	"boolean": {"true", "false"}, "double": {"0", "1.5", "-1.5", "NaN"}, "decimal": {"0", "1", "1.5", "-1.5"},
	"varint": {"0", "1", "-300"}, "blob": {"0x", "0x00", "0xff"}, "date": {"'1970-01-01'", "'2020-02-29'"},
	"timestamp": {"0", "1000", "'2020-02-29 12:00:00.123+0000'"}, "time": {"'00:00:00'", "'12:34:56'"},
	"inet":     {"'10.0.0.1'", "'10.0.0.2'"},
	"uuid":     {"00000000-0000-0000-0000-000000000000", "c37d661d-7e61-49ea-96a5-68c34e83db3a"},
	"timeuuid": {"c37d661d-7e61-11ea-96a5-68c34e83db3a", "13814000-1dd2-11b2-8080-808080808080"},
}

var smallNames = []string{"int", "int", "int", "text", "text", "bigint", "smallint", "ascii", "boolean", "double",
	"decimal", "varint", "blob", "date", "timestamp", "time", "inet", "uuid", "timeuuid"}

// table is a random table in a separate keyspace, with views and indexes.
type table struct {
	draw
	partition, clustering, static, regular []column
	order                                  []string
	// views holds the names of the table's views. indexes holds the statements that create its indexes.
	views, indexes []string
	// compact is set if the table has COMPACT STORAGE.
	compact bool
	// attached is set when the table has a storage-attached index.
	attached bool
}

func (t *table) keys() []column { return append(slices.Clone(t.partition), t.clustering...) }

func (t *table) all() []column {
	return append(append(t.keys(), t.static...), t.regular...)
}

// small draws a type. It mostly draws native types for keys.
func (t *table) small(depth int, key bool) kind {
	if depth == 0 || t.chance(0.55) {
		return kind{name: pick(t.draw, smallNames...)}
	}
	k := kind{frozen: key || t.chance(0.3)}
	part := func(key bool) kind { return t.small(0, key) }
	switch t.IntN(6) {
	case 0:
		k.parts = []kind{part(key)}
		k.name = "list<" + k.parts[0].name + ">"
	case 1:
		k.parts = []kind{part(true)}
		k.name = "set<" + k.parts[0].name + ">"
	case 2, 3:
		k.parts = []kind{part(true), part(key)}
		k.name = "map<" + k.parts[0].name + ", " + k.parts[1].name + ">"
	case 4:
		k.parts = []kind{part(key), part(key)}
		k.name, k.frozen = "tuple<"+k.parts[0].name+", "+k.parts[1].name+">", true
		return k
	default:
		k.parts = []kind{{name: "int"}, {name: "text"}, {name: "set<int>", parts: []kind{{name: "int"}}, frozen: true}}
		k.name = "udt"
	}
	if k.frozen {
		k.name = "frozen<" + k.name + ">"
	} else {
		k.multi = true
	}
	return k
}

// schema draws the table, its indexes, and its views, and returns the statements that create them.
func (t *table) schema(n int) []string {
	for i := range 1 + t.IntN(5)/4 {
		t.partition = append(t.partition, column{fmt.Sprint("p", i), t.small(t.IntN(5)/4, true)})
	}
	for i := range t.IntN(4) {
		k := t.small(t.IntN(5)/4, true)
		for strings.Contains(k.name, "decimal") { // stored by value (docs/compatibility.md, decimal-clustering)
			k = t.small(0, true)
		}
		t.clustering = append(t.clustering, column{fmt.Sprint("c", i), k})
		t.order = append(t.order, pick(t.draw, "ASC", "ASC", "DESC"))
	}
	if len(t.clustering) > 0 {
		for i := range t.IntN(3) {
			t.static = append(t.static, column{fmt.Sprint("s", i), t.small(1, false)})
		}
	}
	for i := range 2 + t.IntN(4) {
		t.regular = append(t.regular, column{fmt.Sprint("r", i), t.small(1, false)})
	}
	var text, order []string
	for _, c := range t.all() {
		s := c.name + " " + c.kind.name
		if c.name[0] == 's' {
			s += " static"
		}
		text = append(text, s)
	}
	for i, c := range t.clustering {
		order = append(order, c.name+" "+t.order[i])
	}
	create := fmt.Sprintf("CREATE TABLE t (%s, PRIMARY KEY (%s))", strings.Join(text, ", "),
		primary(t.partition, t.clustering))
	if len(order) > 0 {
		create += " WITH CLUSTERING ORDER BY (" + strings.Join(order, ", ") + ")"
	}
	ks := fmt.Sprint("tables", n)
	out := []string{"DROP KEYSPACE IF EXISTS " + ks,
		"CREATE KEYSPACE " + ks + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"USE " + ks, "CREATE TYPE udt (f0 int, f1 text, f2 frozen<set<int>>)", create,
		"CREATE FUNCTION plus(a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS " +
			"'return b == null ? a : a + b;'",
		"CREATE AGGREGATE total(int) SFUNC plus STYPE int INITCOND 0"}
	if t.chance(0.5) {
		for range 1 + t.IntN(2) {
			t.indexes = append(t.indexes, t.index())
		}
	}
	if t.chance(0.4) {
		out = append(out, t.view("v0"))
		t.views = append(t.views, "v0")
	}
	return out
}

func primary(partition, clustering []column) string {
	names := func(of []column) string {
		var out []string
		for _, c := range of {
			out = append(out, c.name)
		}
		return strings.Join(out, ", ")
	}
	s := names(partition)
	if len(partition) > 1 {
		s = "(" + s + ")"
	}
	if len(clustering) > 0 {
		s += ", " + names(clustering)
	}
	return s
}

// index draws a legacy index or a storage-attached index.
func (t *table) index() string {
	c := pick(t.draw, t.all()...)
	on := c.name
	if c.multi {
		switch c.base() {
		case "map":
			on = pick(t.draw, "keys(", "values(", "entries(") + on + ")"
		case "list", "set":
			on = "values(" + on + ")"
		}
	} else if c.frozen && c.base() != "tuple" && c.base() != "udt" {
		on = "full(" + on + ")"
	}
	if t.chance(0.5) {
		t.attached = true
		return "CREATE INDEX ON t (" + on + ") USING 'sai'"
	}
	return "CREATE INDEX ON t (" + on + ")"
}

// view draws a materialized view.
func (t *table) view(name string) string {
	keys := t.keys()
	t.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var plain []column
	for _, c := range t.regular {
		if !c.multi && c.base() != "duration" {
			plain = append(plain, c)
		}
	}
	if len(plain) > 0 && t.chance(0.6) {
		keys = append([]column{pick(t.draw, plain...)}, keys...)
	}
	selected := "*"
	if t.chance(0.5) {
		var names []string
		for _, c := range append(slices.Clone(keys), t.regular...) {
			if !slices.Contains(names, c.name) && (slices.ContainsFunc(keys, func(k column) bool {
				return k.name == c.name
			}) || t.chance(0.5)) {
				names = append(names, c.name)
			}
		}
		selected = strings.Join(names, ", ")
	} else if len(t.static) > 0 {
		var names []string
		for _, c := range append(t.keys(), t.regular...) {
			names = append(names, c.name)
		}
		selected = strings.Join(names, ", ")
	}
	var where []string
	for _, c := range keys {
		where = append(where, c.name+" IS NOT NULL")
	}
	return fmt.Sprintf("CREATE MATERIALIZED VIEW %s AS SELECT %s FROM t WHERE %s PRIMARY KEY (%s)", name, selected,
		strings.Join(where, " AND "), primary(keys[:1], keys[1:]))
}

// value draws a literal of a type with few values.
func (t *table) value(k kind) string {
	var parts []string
	switch k.base() {
	case "list":
		for range t.IntN(4) {
			parts = append(parts, t.value(k.parts[0]))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case "set":
		for range t.IntN(4) {
			parts = append(parts, t.value(k.parts[0]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case "map":
		seen := map[string]bool{} // avoid duplicate keys, because Cassandra may keep any of the values
		for range t.IntN(4) {
			if key := t.value(k.parts[0]); !seen[key] {
				seen[key] = true
				parts = append(parts, key+": "+t.value(k.parts[1]))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case "tuple":
		return "(" + t.orNull(k.parts[0]) + ", " + t.value(k.parts[1]) + ")"
	case "udt":
		for i, p := range k.parts {
			if i == 0 || t.chance(0.7) {
				parts = append(parts, fmt.Sprintf("f%d: %s", i, t.orNull(p)))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return pick(t.draw, smallScalars[k.base()]...)
}

func (t *table) orNull(k kind) string {
	if t.chance(0.1) {
		return "null"
	}
	return t.value(k)
}

// json draws a value as JSON.
func (t *table) json(k kind) string {
	var parts []string
	switch k.base() {
	case "list", "set":
		for range t.IntN(4) {
			parts = append(parts, t.json(k.parts[0]))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case "map":
		if t.chance(0.8) {
			parts = append(parts, `"`+strings.Trim(t.json(k.parts[0]), `"`)+`": `+t.json(k.parts[1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case "tuple":
		return "[" + t.json(k.parts[0]) + ", " + t.json(k.parts[1]) + "]"
	case "udt":
		return fmt.Sprintf(`{"f0": %s, "f1": %s}`, t.json(k.parts[0]), t.json(k.parts[1]))
	}
	s := pick(t.draw, smallScalars[k.base()]...)
	if k.isNumber() && s != "NaN" || k.base() == "boolean" {
		return s
	}
	return `"` + strings.Trim(s, "'") + `"`
}
