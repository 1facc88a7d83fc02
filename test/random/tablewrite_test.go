// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"slices"
	"strings"
)

// using draws a USING clause. It draws timestamps from a small set, and it draws lifetimes that do not end during the
// test.
func (t *table) using(lifetime bool) string {
	var parts []string
	if t.chance(0.8) {
		parts = append(parts, fmt.Sprintf("TIMESTAMP %d", 1+t.IntN(20)))
	}
	if lifetime && t.chance(0.1) {
		parts = append(parts, fmt.Sprintf("TTL %d", pick(t.draw, 0, 100_000, 200_000)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " USING " + strings.Join(parts, " AND ")
}

// equal draws restrictions of some columns to one value, or sometimes to several values.
func (t *table) equal(of []column, several bool) []string {
	var w []string
	for _, c := range of {
		if several && t.chance(0.08) {
			w = append(w, fmt.Sprintf("%s IN (%s, %s)", c.name, t.value(c.kind), t.value(c.kind)))
			continue
		}
		w = append(w, c.name+" = "+t.value(c.kind))
	}
	return w
}

func and(w ...[]string) string { return strings.Join(slices.Concat(w...), " AND ") }

// write draws an INSERT, UPDATE, DELETE, or BATCH.
func (t *table) write() string {
	if t.chance(0.1) {
		var parts []string
		for range 1 + t.IntN(4) {
			parts = append(parts, t.single(false)+"; ")
		}
		return "BEGIN " + pick(t.draw, "", "UNLOGGED ") + "BATCH" + pick(t.draw, "", " USING TIMESTAMP 7") + " " +
			strings.Join(parts, "") + "APPLY BATCH"
	}
	return t.single(true)
}

// single draws one write. If stamped is set, the write may have an explicit timestamp.
func (t *table) single(stamped bool) string {
	using := func(lifetime bool) string {
		if !stamped {
			return ""
		}
		return t.using(lifetime)
	}
	switch x := t.Float64(); {
	case x < 0.4:
		return t.insert(t.columns(0.6)) + using(true)
	case x < 0.45 && !t.flat() && len(t.regular) > 0:
		return t.insertJSON() + using(true)
	case x < 0.88 && len(t.regular) == 0:
		return t.insert(nil) + using(true)
	case x < 0.8:
		var set []string
		columns := t.columns(0.4)
		if len(columns) == 0 {
			columns = []column{pick(t.draw, t.regular...)}
		}
		clustering := t.prefix()
		if columns[0].name[0] == 's' && t.chance(0.7) {
			columns, clustering = columns[:1], nil
		}
		for _, c := range columns {
			set = append(set, t.assignment(c))
		}
		return fmt.Sprintf("UPDATE t%s SET %s WHERE %s", using(true), strings.Join(set, ", "),
			and(t.equal(t.partition, true), t.equal(clustering, true)))
	case x < 0.88:
		c := pick(t.draw, append(slices.Clone(t.regular), t.static...)...)
		what, clustering := t.element(c), t.clustering
		if c.name[0] == 's' {
			clustering = nil
		}
		return fmt.Sprintf("DELETE %s FROM t%s WHERE %s", what, using(false),
			and(t.equal(t.partition, true), t.equal(clustering, true)))
	}
	return fmt.Sprintf("DELETE FROM t%s WHERE %s", using(false), and(t.equal(t.partition, true), t.slice()))
}

// columns draws columns that are not part of the key.
func (t *table) columns(chance float64) []column {
	var out []column
	for _, c := range append(slices.Clone(t.static), t.regular...) {
		if t.chance(chance) {
			out = append(out, c)
		}
	}
	if len(out) == 0 && t.compact && len(t.regular) > 0 {
		out = append(out, pick(t.draw, t.regular...))
	}
	return out
}

func (t *table) insert(columns []column) string {
	var names, values []string
	for _, c := range append(slices.Clone(t.partition), t.prefix()...) {
		names, values = append(names, c.name), append(values, t.value(c.kind))
	}
	for _, c := range columns {
		names, values = append(names, c.name), append(values, t.orNull(c.kind))
	}
	return fmt.Sprintf("INSERT INTO t (%s) VALUES (%s)", strings.Join(names, ", "), strings.Join(values, ", "))
}

func (t *table) insertJSON() string {
	var parts []string
	for _, c := range append(t.keys(), t.columns(0.5)...) {
		parts = append(parts, fmt.Sprintf("%q: %s", c.name, t.json(c.kind)))
	}
	return "INSERT INTO t JSON '{" + strings.Join(parts, ", ") + "}'" +
		pick(t.draw, "", " DEFAULT UNSET", " DEFAULT NULL")
}

func (t *table) assignment(c column) string {
	if c.multi && t.chance(0.65) {
		v := t.value(c.kind)
		switch c.base() {
		case "udt":
			i := t.IntN(3)
			return fmt.Sprintf("%s.f%d = %s", c.name, i, t.orNull(c.parts[i]))
		case "list":
			return pick(t.draw, c.name+" = "+c.name+" + "+v, c.name+" = "+v+" + "+c.name, c.name+" = "+c.name+" - "+v,
				fmt.Sprintf("%s[%d] = %s", c.name, t.IntN(3), t.orNull(c.parts[0])), c.name+" += "+v, c.name+" -= "+v)
		case "set":
			return c.name + pick(t.draw, " = "+c.name+" + ", " = "+c.name+" - ", " += ", " -= ") + v
		case "map":
			return pick(t.draw, c.name+" = "+c.name+" + "+v, c.name+" += "+v,
				c.name+" = "+c.name+" - {"+t.value(c.parts[0])+"}",
				c.name+"["+t.value(c.parts[0])+"] = "+t.orNull(c.parts[1]))
		}
	}
	return c.name + " = " + t.orNull(c.kind)
}

// element draws a column, or part of a column that can be deleted.
func (t *table) element(c column) string {
	if c.multi && t.chance(0.5) {
		switch c.base() {
		case "map", "set":
			return c.name + "[" + t.value(c.parts[0]) + "]"
		case "list":
			return fmt.Sprintf("%s[%d]", c.name, t.IntN(3))
		case "udt":
			return fmt.Sprintf("%s.f%d", c.name, t.IntN(3))
		}
	}
	return c.name
}

// slice draws restrictions of clustering columns. It draws no restrictions, or equality for the first columns and
// sometimes a range for the next column.
func (t *table) slice() []string {
	n := t.IntN(len(t.clustering) + 1)
	w := t.equal(t.clustering[:n], false)
	if n == len(t.clustering) || t.chance(0.3) {
		return w
	}
	if rest := t.clustering[n:]; len(rest) > 1 && n == 0 && t.chance(0.3) {
		var names, values []string
		for _, c := range rest[:1+t.IntN(len(rest))] {
			names, values = append(names, c.name), append(values, t.value(c.kind))
		}
		return append(w, fmt.Sprintf("(%s) %s (%s)", strings.Join(names, ", "), pick(t.draw, ">", ">=", "<", "<="),
			strings.Join(values, ", ")))
	}
	c := t.clustering[n]
	if t.chance(0.3) {
		return append(w, c.name+pick(t.draw, " > ", " >= ")+t.value(c.kind), c.name+pick(t.draw, " < ", " <= ")+
			t.value(c.kind))
	}
	return append(w, c.name+pick(t.draw, " > ", " >= ", " < ", " <= ")+t.value(c.kind))
}

// condition draws an IF condition.
func (t *table) condition(static bool) string {
	of := t.regular
	if static && len(t.static) > 0 {
		of = t.static
	}
	c := pick(t.draw, of...)
	if c.multi && t.chance(0.5) {
		switch c.base() {
		case "map":
			return c.name + "[" + t.value(c.parts[0]) + "]" + pick(t.draw, " = ", " != ", " > ") + t.value(c.parts[1])
		case "list":
			return fmt.Sprintf("%s[%d]%s%s", c.name, t.IntN(3), pick(t.draw, " = ", " != ", " < "), t.value(c.parts[0]))
		case "udt":
			i := t.IntN(3)
			return fmt.Sprintf("%s.f%d%s%s", c.name, i, pick(t.draw, " = ", " != "), t.orNull(c.parts[i]))
		}
	}
	if len(c.parts) > 0 && t.chance(0.3) {
		switch c.base() {
		case "list", "set":
			return c.name + " CONTAINS " + t.value(c.parts[0])
		case "map":
			return c.name + " CONTAINS KEY " + t.value(c.parts[0])
		}
	}
	if t.chance(0.15) {
		return fmt.Sprintf("%s IN (%s, %s)", c.name, t.value(c.kind), t.value(c.kind))
	}
	return c.name + pick(t.draw, " = ", " = ", " != ", " > ", " <= ") + pick(t.draw, t.value(c.kind), t.value(c.kind),
		"null")
}

// conditional draws a conditional write, or a batch of conditional writes to one partition.
func (t *table) conditional() string {
	if len(t.regular) == 0 {
		return t.insert(nil) + " IF NOT EXISTS"
	}
	partition, row := t.equal(t.partition, false), t.equal(t.prefix(), false)
	conditions := func(static bool) string {
		s := t.condition(static)
		if t.chance(0.2) {
			s += " AND " + t.condition(t.chance(0.3))
		}
		return s
	}
	update := func(condition string) string {
		return fmt.Sprintf("UPDATE t SET %s WHERE %s%s", t.assignment(pick(t.draw, t.regular...)),
			and(partition, row), condition)
	}
	switch x := t.Float64(); {
	case x < 0.25:
		return t.insert(t.columns(0.5)) + " IF NOT EXISTS"
	case x < 0.55:
		return update(" IF " + pick(t.draw, "EXISTS", conditions(false), conditions(false), conditions(true)))
	case x < 0.65 && len(t.static) > 0:
		return fmt.Sprintf("UPDATE t SET %s WHERE %s IF %s", t.assignment(pick(t.draw, t.static...)), and(partition),
			t.condition(true))
	case x < 0.75 && !t.flat():
		return fmt.Sprintf("DELETE FROM t WHERE %s IF %s", and(partition, row),
			pick(t.draw, "EXISTS", conditions(false)))
	case x < 0.8:
		return fmt.Sprintf("DELETE %s FROM t WHERE %s IF %s", t.element(pick(t.draw, t.regular...)),
			and(partition, row), conditions(false))
	}
	first := update(" IF " + conditions(t.chance(0.3)))
	row = t.equal(t.prefix(), false)
	second := pick(t.draw, update(""), update(" IF EXISTS"), "DELETE FROM t WHERE "+and(partition, t.slice()),
		"DELETE FROM t WHERE "+and(partition, row))
	return "BEGIN BATCH " + first + "; " + second + "; APPLY BATCH"
}
