// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"strings"
)

// kind is a CQL type for random columns. kind contains the name of the type and generates its literals.
type kind struct {
	name string
	// parts holds the types of the elements, of the keys and values, or of the fields.
	parts []kind
	// frozen is set for a type that is stored in one cell. multi is set for a collection or user type that is stored
	// in several cells.
	frozen, multi bool
}

// scalars maps the native types to literals. The literals include the limits of the types and frequent values.
var scalars = map[string][]string{
	"ascii":    {"''", "'a'", "'b'", "'B'", "'zz'", "'a b'"},
	"text":     {"''", "'a'", "'b'", "'ä'", "'A'", "'zz'", "$$it's$$", "'it''s'", "'12'"},
	"bigint":   {"0", "1", "-1", "9223372036854775807", "-9223372036854775808", "42"},
	"int":      {"0", "1", "-1", "2147483647", "-2147483648", "7"},
	"smallint": {"0", "1", "-1", "32767", "-32768", "7"},
	"tinyint":  {"0", "1", "-1", "127", "-128", "7"},
	"varint":   {"0", "1", "-1", "128", "-129", "123456789012345678901234567890"},
	"float":    {"0", "1.5", "-1.5", "NaN", "Infinity", "-Infinity", "3.4e38", "1e-40", "7", "-0.0"},
	"double":   {"0", "1.5", "-1.5", "NaN", "Infinity", "-Infinity", "1.7e308", "1e-310", "7", "-0.0"},
	"decimal":  {"0", "1.50", "1.5", "-1.5", "1e10", "1E-10", "123456789.123456789", "7"},
	"boolean":  {"true", "false"},
	"blob":     {"0x", "0x00", "0xff", "0xcafe", "0x0001", "0x00000007"},
	"inet":     {"'127.0.0.1'", "'::1'", "'10.0.0.255'", "'2001:db8::7'"},
	"uuid": {"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff",
		"c37d661d-7e61-49ea-96a5-68c34e83db3a", "c37d661d-7e61-11ea-96a5-68c34e83db3a"},
	"timeuuid": {"c37d661d-7e61-11ea-96a5-68c34e83db3a", "13814000-1dd2-11b2-8080-808080808080",
		"13814000-1dd2-11b2-7f7f-7f7f7f7f7f7f"},
	"timestamp": {"0", "1", "'1970-01-01'", "'2020-02-29 12:00:00.123+0000'", "'2020-02-29T12:00:00Z'", "-1",
		"1582934400000", "'2011-02-03 04:05+0200'"},
	"date":     {"'1970-01-01'", "'2020-02-29'", "2147483648", "0", "'-0044-03-15'", "'1969-12-31'"},
	"time":     {"0", "'00:00:00'", "'12:34:56.789'", "86399999999999", "'23:59:59.999999999'", "1"},
	"duration": {"1d", "12h30m", "-1mo", "P1Y2M", "1y2mo3w4d5h6m7s8ms9us10ns", "PT0S", "0s"},
}

// scalarNames holds the keys of scalars in order, so that a seed always produces the same statements.
var scalarNames = []string{"ascii", "text", "bigint", "int", "smallint", "tinyint", "varint", "float", "double",
	"decimal", "boolean", "blob", "inet", "uuid", "timeuuid", "timestamp", "date", "time", "duration"}

// scalar draws a native type. Keys never get a duration.
func (d draw) scalar(key bool) kind {
	for {
		name := pick(d, scalarNames...)
		if key && name == "duration" {
			continue
		}
		return kind{name: name}
	}
}

// kind draws a type of the given depth.
func (d draw) kind(depth int, key bool) kind {
	if depth == 0 || d.chance(0.6) {
		return d.scalar(key)
	}
	k := kind{frozen: key || depth < 2 || d.chance(0.4)}
	part := func(key bool) kind {
		p := d.kind(depth-1, key)
		p.frozen, p.multi = true, false
		return p
	}
	switch d.IntN(5) {
	case 0:
		k.parts = []kind{part(key)}
		k.name = "list<" + k.parts[0].name + ">"
	case 1:
		k.parts = []kind{part(true)}
		k.name = "set<" + k.parts[0].name + ">"
	case 2:
		k.parts = []kind{part(true), part(key)}
		k.name = "map<" + k.parts[0].name + ", " + k.parts[1].name + ">"
	case 3:
		k.parts = []kind{part(key), part(key)}
		k.name = "tuple<" + k.parts[0].name + ", " + k.parts[1].name + ">"
		k.frozen = true
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

// base returns the name of the type without its parts.
func (k kind) base() string {
	name := strings.TrimPrefix(k.name, "frozen<")
	if i := strings.IndexByte(name, '<'); i >= 0 {
		return name[:i]
	}
	return strings.TrimSuffix(name, ">")
}

// literal draws a value of a type. Sometimes it draws a value of another type, which both servers must reject.
func (d draw) literal(k kind) string {
	if d.chance(0.01) {
		return d.literal(d.scalar(false))
	}
	elements := func(of func() string) string {
		var out []string
		for range d.IntN(3) {
			out = append(out, of())
		}
		return strings.Join(out, ", ")
	}
	switch k.base() {
	case "list":
		return "[" + elements(func() string { return d.literal(k.parts[0]) }) + "]"
	case "set":
		// avoid equal decimals, because Cassandra may keep any of the equal values
		if strings.Contains(k.parts[0].name, "decimal") {
			return "{" + d.literal(k.parts[0]) + "}"
		}
		return "{" + elements(func() string { return d.literal(k.parts[0]) }) + "}"
	case "map":
		if d.chance(0.3) {
			return "{}"
		}
		// A literal contains only one entry, because the value of a duplicate key varies in Cassandra.
		return "{" + d.literal(k.parts[0]) + ": " + d.literal(k.parts[1]) + "}"
	case "tuple":
		return "(" + d.term(k.parts[0]) + ", " + d.term(k.parts[1]) + ")"
	case "udt":
		var out []string
		for i, p := range k.parts {
			if d.chance(0.8) {
				out = append(out, fmt.Sprintf("f%d: %s", i, d.term(p)))
			}
		}
		if len(out) == 0 {
			return "{f0: 1}"
		}
		return "{" + strings.Join(out, ", ") + "}"
	}
	return pick(d, scalars[k.base()]...)
}

// term draws a literal, null, or an expression of a type.
func (d draw) term(k kind) string {
	switch x := d.Float64(); {
	case x < 0.04:
		return "null"
	case x < 0.08 && k.parts == nil:
		return "(" + k.name + ") " + d.literal(k)
	case x < 0.12 && k.isNumber():
		return d.literal(k) + pick(d, " + ", " - ", " * ", " / ", " % ") + d.literal(k)
	case x < 0.14 && k.isNumber():
		return pick(d, "-", "- ") + d.literal(k)
	case x < 0.15 && k.parts == nil:
		return pick(d, "blob_as_", "blobAs") + k.name + "(" + pick(d, scalars["blob"]...) + ")"
	case x < 0.16 && k.base() == "timestamp":
		return pick(d, "to_timestamp", "toTimestamp") + "(" + d.literal(kind{name: pick(d, "date", "timeuuid")}) + ")"
	case x < 0.16 && k.base() == "date":
		return "to_date(" + d.literal(kind{name: pick(d, "timestamp", "timeuuid")}) + ")"
	case x < 0.17 && k.base() == "blob":
		s := d.scalar(false)
		return s.name + "_as_blob(" + d.literal(s) + ")"
	}
	return d.literal(k)
}

func (k kind) isNumber() bool {
	switch k.name {
	case "bigint", "int", "smallint", "tinyint", "varint", "float", "double", "decimal":
		return true
	}
	return false
}
