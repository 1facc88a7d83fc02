// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"slices"
	"strings"
)

// query draws a SELECT of the table or of one of its views.
func (t *table) query() string {
	from := "t"
	if len(t.views) > 0 && t.chance(0.2) {
		from = pick(t.draw, t.views...)
	}
	selected, grouped := t.selection()
	q := "SELECT " + selected + " FROM " + from
	if w := t.where(); len(w) > 0 {
		q += " WHERE " + and(w)
	}
	keys := t.keys()
	if grouped && t.chance(0.6) {
		n := len(t.partition)
		if len(keys) > n {
			n += t.IntN(len(keys) - n + 1)
		}
		var names []string
		for _, c := range keys[:n] {
			names = append(names, c.name)
		}
		q += " GROUP BY " + strings.Join(names, ", ")
	}
	if len(t.clustering) > 0 && t.chance(0.2) {
		var order []string
		reversed := t.chance(0.5)
		for i, c := range t.clustering[:1+t.IntN(len(t.clustering))] {
			s := c.name
			if reversed == (t.order[i] == "ASC") || t.chance(0.05) {
				s += " DESC"
			}
			order = append(order, s)
		}
		q += " ORDER BY " + strings.Join(order, ", ")
	}
	if t.chance(0.12) {
		q += fmt.Sprintf(" PER PARTITION LIMIT %d", 1+t.IntN(3))
	}
	if t.chance(0.2) {
		q += fmt.Sprintf(" LIMIT %d", 1+t.IntN(6))
	}
	if t.chance(0.75) {
		q += " ALLOW FILTERING"
	}
	return q
}

// selection draws the selected expressions, and reports whether grouping makes sense.
func (t *table) selection() (text string, grouped bool) {
	switch x := t.Float64(); {
	case x < 0.35:
		return "*", false
	case x < 0.42:
		return "JSON *", false
	case x < 0.5:
		var names []string
		for _, c := range append(slices.Clone(t.partition), t.static...) {
			if c.name[0] == 'p' || t.chance(0.7) {
				names = append(names, c.name)
			}
		}
		return "DISTINCT " + strings.Join(names, ", "), false
	case x < 0.65:
		var parts []string
		if t.chance(0.5) {
			parts = append(parts, t.partition[0].name)
		}
		for range 1 + t.IntN(3) {
			c := pick(t.draw, t.all()...)
			parts = append(parts, pick(t.draw, "count(*)", "count("+c.name+")", "min("+c.name+")", "max("+c.name+")",
				t.number()))
		}
		return strings.Join(parts, ", "), true
	}
	var parts []string
	for range 1 + t.IntN(4) {
		c := pick(t.draw, t.all()...)
		parts = append(parts, pick(t.draw, c.name, c.name, t.part(c), t.part(c)))
	}
	return strings.Join(parts, ", "), t.chance(0.2)
}

// number returns the sum or average of a numeric column, if the table has such a column.
func (t *table) number() string {
	for _, c := range t.all() {
		if c.isNumber() {
			if c.base() == "int" && t.chance(0.3) {
				return fmt.Sprintf(pick(t.draw, "total(%s)", "sum(plus(3, %s))", "plus(1, max(%s))"), c.name)
			}
			return pick(t.draw, "sum(", "avg(") + c.name + ")"
		}
	}
	return "count(*)"
}

// part draws an expression for a column.
func (t *table) part(c column) string {
	if strings.ContainsRune("sr", rune(c.name[0])) && t.chance(0.3) {
		return pick(t.draw, "writetime(", "writetime(", "maxwritetime(") + c.name + ")"
	}
	switch c.base() {
	case "map", "set":
		return pick(t.draw, c.name+"["+t.value(c.parts[0])+"]", c.name+"["+t.value(c.parts[0])+"..]",
			"to_json("+c.name+")", "collection_count("+c.name+")", "writetime("+c.name+"["+t.value(c.parts[0])+"])")
	case "list":
		return "collection_count(" + c.name + ")"
	case "udt":
		return fmt.Sprintf("%s.f%d", c.name, t.IntN(3))
	}
	if c.base() == "int" && t.chance(0.3) {
		return "plus(2, " + c.name + ")"
	}
	if c.isNumber() && t.chance(0.3) {
		return "CAST(" + c.name + " AS text)"
	}
	if c.base() == "text" && t.chance(0.2) {
		return pick(t.draw, "mask_inner("+c.name+", 1, null)", "mask_replace("+c.name+", 'q')", "mask_hash("+c.name+")")
	}
	return pick(t.draw, "to_json("+c.name+")", c.name, "token("+t.partition[0].name+")")
}

// where draws restrictions of the partition, its rows, and other columns.
func (t *table) where() []string {
	var w []string
	bounded := true
	switch x := t.Float64(); {
	case x < 0.45:
		w = t.equal(t.partition, false)
	case x < 0.55:
		w = t.equal(t.partition[1:], false)
		c := t.partition[0]
		w = append(w, fmt.Sprintf("%s IN (%s, %s, %s)", c.name, t.value(c.kind), t.value(c.kind), t.value(c.kind)))
	case x < 0.65:
		var names, values []string
		for _, c := range t.partition {
			names, values = append(names, c.name), append(values, t.value(c.kind))
		}
		name := "token(" + strings.Join(names, ", ") + ")"
		w = append(w, name+pick(t.draw, " > ", " >= ", " <= ", " < ")+"token("+strings.Join(values, ", ")+")")
		if t.chance(0.3) {
			w = append(w, name+pick(t.draw, " > ", " <= ")+
				pick(t.draw, "0", "-4000000000000000000", "4611686018427387904"))
		}
		bounded = false
	case x < 0.7:
		w = t.equal(t.partition[:1], false)
	default:
		bounded = false
	}
	if t.chance(0.4) && (bounded || t.chance(0.3)) {
		s := t.slice()
		if len(s) > 0 && t.chance(0.1) {
			c := t.clustering[0]
			s[0] = fmt.Sprintf("%s IN (%s, %s)", c.name, t.value(c.kind), t.value(c.kind))
		}
		w = append(w, s...)
	}
	for t.chance(0.3) {
		w = append(w, t.relation())
	}
	return w
}

// relation draws a restriction of any column.
func (t *table) relation() string {
	c := pick(t.draw, append(append(slices.Clone(t.regular), t.regular...), t.all()...)...)
	if len(c.parts) > 0 && t.chance(0.8) {
		switch c.base() {
		case "list", "set":
			return c.name + " CONTAINS " + t.value(c.parts[0])
		case "map":
			return pick(t.draw, c.name+" CONTAINS "+t.value(c.parts[1]), c.name+" CONTAINS KEY "+t.value(c.parts[0]),
				c.name+"["+t.value(c.parts[0])+"] = "+t.value(c.parts[1]))
		}
	}
	if t.chance(0.1) {
		return fmt.Sprintf("%s IN (%s, %s)", c.name, t.value(c.kind), t.value(c.kind))
	}
	return c.name + pick(t.draw, " = ", " = ", " = ", " > ", " <= ", " < ", " >= ") + t.value(c.kind)
}
