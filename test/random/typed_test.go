// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// column is a column of a random table.
type column struct {
	name string
	kind
}

// typed is a random table with random types.
type typed struct {
	draw
	partition, clustering, static, regular []column
	desc                                   []bool
}

func (t *typed) all() []column {
	return append(append(append(append([]column(nil), t.partition...), t.clustering...), t.static...), t.regular...)
}

// TestTypesAgainstCassandra executes random statements with all kinds of expressions and functions on tables with
// random types. It checks that a new node and a Cassandra server return the same results.
func TestTypesAgainstCassandra(t *testing.T) {
	if *against == "" {
		t.Skip("needs a Cassandra: -against")
	}
	inside, cassandra := dial(t, startNode(t, *partitions)), dial(t, *against)
	d := draw{rand.New(rand.NewPCG(*seed, 1))}
	statements, differ := 0, map[string]bool{}
	for n := range *rounds {
		g := &typed{draw: d}
		p := &pair{T: t, d: d, inside: inside, cassandra: cassandra}
		for _, s := range g.schema(n) {
			p.change(s)
		}
		p.keyForms = slices.ContainsFunc(g.clustering, func(c column) bool { return c.keyed(true) }) ||
			slices.ContainsFunc(g.all(), func(c column) bool { return c.keyed(false) })
		for i := 0; i < 20 && !p.apart; i++ {
			for range 5 {
				p.change(g.write())
			}
			if d.chance(0.5) {
				p.change(g.conditional())
			}
			if p.change("SELECT * FROM t"); p.apart {
				break
			}
			for range 8 {
				p.same(g.query(), pick(d, 0, 0, 1, 3))
			}
			statements += 14
		}
		for _, line := range p.differences {
			if key, _, _ := strings.Cut(line, "\n"); !differ[key] {
				differ[key] = true
				t.Error(line)
			}
		}
	}
	t.Logf("%d statements", statements)
}

// change works like same for a statement that changes data. After a difference or a failure of Cassandra, the test
// cannot compare later results.
func (p *pair) change(statement string) {
	if p.apart {
		return
	}
	p.failed = false
	p.apart = !p.same(statement, 0) || p.failed
}

// alike replaces function names that Cassandra chooses at random among names of the same function.
var alike = strings.NewReplacer("system.tojson(", "system.to_json(")

// same works like compare, but continues after a difference. same reports whether the results were equal.
func (p *pair) same(statement string, page int) bool {
	p.Helper()
	var got [2]string
	for i, c := range p.conns() {
		got[i] = alike.Replace(stamps.ReplaceAllString(answer(c, statement, page), "now"))
		if p.keyForms {
			got[i] = keyForms(got[i])
		}
	}
	p.statements++
	p.history = append(p.history, statement)
	plain := got
	for i := range got {
		if strings.HasPrefix(got[i], "error") && !p.texts {
			got[i], _, _ = strings.Cut(got[i], ":")
		}
	}
	if got[0] != got[1] && (ownFailure.MatchString(plain[1]) || explained(statement, plain[0], plain[1])) {
		p.failed = true
		return true
	}
	if got[0] == got[1] || p.texts && otherMistake(got[0], got[1]) || strings.Contains(got[1], "Legacy") ||
		strings.Contains(plain[1], "paging state") || p.keyForms && bytesOf.MatchString(statement) {
		return true // accept a fault of Cassandra, which usually occurs with pages of groups or with types from 3.0
	}
	difference := fmt.Sprintf("%s\n(pages of %d)\n%s", statement, page, differing(plain[0], plain[1]))
	if !strings.HasPrefix(statement, "SELECT") || page == 0 && statement == "SELECT * FROM t" {
		difference += "\nafter\n  " + strings.Join(p.history, "\n  ")
	}
	p.differences = append(p.differences, difference)
	return false
}

// ownFailure matches results that report an internal failure of Cassandra.
var ownFailure = regexp.MustCompile(`^error 0x(0000|1300)`)

// otherMistake reports whether both results reject a statement as invalid for different reasons. If a statement has
// several mistakes and one of them is in the SELECT clause, the servers may report different mistakes
// (docs/compatibility.md, texts).
func otherMistake(ilion, cassandra string) bool {
	const invalid = "error 0x2200: "
	return strings.HasPrefix(ilion, invalid) && strings.HasPrefix(cassandra, invalid) &&
		(selected.MatchString(ilion) || selected.MatchString(cassandra))
}

var selected = regexp.MustCompile(`: (Undefined column|Invalid call to|Invalid number of arg|Unknown function|` +
	`Cannot infer|Cannot use selection function|Type error: \w+ cannot be passed)`)

// differing returns the first lines that differ between two results.
func differing(ilion, cassandra string) string {
	ours, theirs := strings.Split(ilion, "\n"), strings.Split(cassandra, "\n")
	var out []string
	for i := 0; i < max(len(ours), len(theirs)) && len(out) < 4; i++ {
		var a, b string
		if i < len(ours) {
			a = ours[i]
		}
		if i < len(theirs) {
			b = theirs[i]
		}
		if a != b {
			out = append(out, "- "+a, "+ "+b)
		}
	}
	return strings.Join(out, "\n")
}

// schema draws the table typed.t and returns the statements that it requires.
func (g *typed) schema(n int) []string {
	for i := range 1 + g.IntN(2) {
		g.partition = append(g.partition, column{fmt.Sprint("p", i), g.kind(g.IntN(2), true)})
	}
	for i := range g.IntN(3) {
		g.clustering = append(g.clustering, column{fmt.Sprint("c", i), g.kind(g.IntN(2), true)})
		g.desc = append(g.desc, g.chance(0.4))
	}
	if len(g.clustering) > 0 && g.chance(0.5) {
		g.static = append(g.static, column{"s", g.kind(2, false)})
	}
	for i := range 2 + g.IntN(4) {
		g.regular = append(g.regular, column{fmt.Sprint("r", i), g.kind(2, false)})
	}
	var text, partition, keys, order []string
	for _, c := range g.all() {
		s := c.name + " " + c.kind.name
		if c.name == "s" {
			s += " static"
		}
		text = append(text, s)
	}
	for _, c := range g.partition {
		partition = append(partition, c.name)
	}
	keys = append(keys, "("+strings.Join(partition, ", ")+")")
	for i, c := range g.clustering {
		keys = append(keys, c.name)
		order = append(order, c.name+map[bool]string{false: " ASC", true: " DESC"}[g.desc[i]])
	}
	create := fmt.Sprintf("CREATE TABLE t (%s, PRIMARY KEY (%s))", strings.Join(text, ", "), strings.Join(keys, ", "))
	if len(order) > 0 {
		create += " WITH CLUSTERING ORDER BY (" + strings.Join(order, ", ") + ")"
	}
	ks := fmt.Sprint("typed", n)
	return []string{"DROP KEYSPACE IF EXISTS " + ks,
		"CREATE KEYSPACE " + ks + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"USE " + ks, "CREATE TYPE udt (f0 int, f1 text, f2 frozen<set<int>>)", create}
}

// where draws restrictions of whole keys, or sometimes of parts of keys.
func (g *typed) where(whole bool) string {
	var w []string
	for _, c := range append(append([]column(nil), g.partition...), g.clustering...) {
		if whole || g.chance(0.97) {
			w = append(w, c.name+" = "+g.literal(c.kind))
		}
	}
	return strings.Join(w, " AND ")
}

func (g *typed) stamp() string { return fmt.Sprintf(" USING TIMESTAMP %d", 1+g.IntN(12)) }

// write draws an INSERT, UPDATE, or DELETE.
func (g *typed) write() string {
	switch x := g.Float64(); {
	case x < 0.55:
		var names, values []string
		for _, c := range g.all() {
			key := c.name[0] == 'p' || c.name[0] == 'c'
			if key || g.chance(0.6) {
				v := g.term(c.kind)
				if key && g.chance(0.95) {
					v = g.literal(c.kind)
				}
				names, values = append(names, c.name), append(values, v)
			}
		}
		return fmt.Sprintf("INSERT INTO t (%s) VALUES (%s)%s", strings.Join(names, ", "), strings.Join(values, ", "),
			g.stamp())
	case x < 0.9:
		var set []string
		for range 1 + g.IntN(2) {
			set = append(set, g.assignment(pick(g.draw, g.regular...)))
		}
		return fmt.Sprintf("UPDATE t%s SET %s WHERE %s", g.stamp(), strings.Join(set, ", "), g.where(false))
	case x < 0.95:
		return fmt.Sprintf("DELETE %s FROM t%s WHERE %s", g.element(pick(g.draw, g.regular...)), g.stamp(),
			g.where(false))
	}
	return fmt.Sprintf("DELETE FROM t%s WHERE %s", g.stamp(), g.where(false))
}

// element draws a column, an element of a column, or a field of a column.
func (g *typed) element(c column) string {
	if g.chance(0.5) {
		switch c.base() {
		case "map", "set":
			return c.name + "[" + g.literal(c.parts[0]) + "]"
		case "list":
			return fmt.Sprintf("%s[%d]", c.name, g.IntN(3))
		case "udt":
			return fmt.Sprintf("%s.f%d", c.name, g.IntN(3))
		}
	}
	return c.name
}

func (g *typed) assignment(c column) string {
	if c.multi && g.chance(0.6) {
		switch c.base() {
		case "udt":
			i := g.IntN(3)
			return fmt.Sprintf("%s.f%d = %s", c.name, i, g.term(c.parts[i]))
		case "list":
			return pick(g.draw, g.merging(c, "+"), c.name+" = "+g.literal(c.kind)+" + "+c.name, g.merging(c, "-"),
				fmt.Sprintf("%s[%d] = %s", c.name, g.IntN(3), g.term(c.parts[0])), c.name+" += "+g.literal(c.kind))
		case "set":
			return pick(g.draw, g.merging(c, "+"), g.merging(c, "-"), c.name+" -= "+g.literal(c.kind))
		case "map":
			return pick(g.draw, g.merging(c, "+"), c.name+" = "+c.name+" - {"+g.literal(c.parts[0])+"}",
				c.name+"["+g.literal(c.parts[0])+"] = "+g.term(c.parts[1]))
		}
	}
	return c.name + " = " + g.term(c.kind)
}

// merging draws an assignment that combines a collection with a literal.
func (g *typed) merging(c column, op string) string {
	return c.name + " = " + c.name + " " + op + " " + g.literal(c.kind)
}

func (g *typed) conditional() string {
	c := pick(g.draw, g.regular...)
	condition := pick(g.draw, "EXISTS", g.relation(c), g.relation(c), c.name+" != "+g.term(c.kind),
		g.element(c)+pick(g.draw, " = ", " < ", " != ")+g.literal(c.kind))
	if (c.base() == "map" || c.base() == "udt") && g.chance(0.5) {
		i := 1
		e := c.name + "[" + g.literal(c.parts[0]) + "]"
		if c.base() == "udt" {
			i = g.IntN(3)
			e = fmt.Sprintf("%s.f%d", c.name, i)
		}
		condition = e + pick(g.draw, " = ", " > ", " != ") + g.term(c.parts[i])
	}
	return fmt.Sprintf("UPDATE t SET %s WHERE %s IF %s", g.assignment(pick(g.draw, g.regular...)), g.where(true),
		condition)
}

// relation draws a restriction of a column of any kind.
func (g *typed) relation(c column) string {
	if len(c.parts) > 0 && g.chance(0.4) {
		switch c.base() {
		case "list", "set":
			return c.name + " CONTAINS " + g.literal(c.parts[0])
		case "map":
			return pick(g.draw, c.name+" CONTAINS "+g.literal(c.parts[1]),
				c.name+" CONTAINS KEY "+g.literal(c.parts[0]),
				c.name+"["+g.literal(c.parts[0])+"] = "+g.literal(c.parts[1]))
		}
	}
	if g.chance(0.2) {
		return c.name + " IN (" + g.term(c.kind) + ", " + g.literal(c.kind) + ")"
	}
	return c.name + pick(g.draw, " = ", " = ", " > ", " <= ", " < ", " >= ") + g.term(c.kind)
}

// query draws a SELECT.
func (g *typed) query() string {
	var selected []string
	for range 1 + g.IntN(3) {
		selected = append(selected, g.selector(g.IntN(2)))
	}
	q := "SELECT " + strings.Join(selected, ", ") + " FROM t"
	switch x := g.Float64(); {
	case x < 0.1:
		q = "SELECT JSON * FROM t"
	case x < 0.15:
		q = "SELECT DISTINCT " + g.partition[0].name + " FROM t"
	case x < 0.2:
		q = "SELECT count(*), " + selected[0] + " FROM t"
	}
	var w []string
	if g.chance(0.4) {
		if s := g.where(false); s != "" {
			w = append(w, s)
		}
	}
	if g.chance(0.4) {
		w = append(w, g.relation(pick(g.draw, g.all()...)))
	}
	if len(w) > 0 {
		q += " WHERE " + strings.Join(w, " AND ")
	}
	if g.chance(0.1) {
		q += " GROUP BY " + g.partition[0].name
	}
	if len(g.clustering) > 0 && g.chance(0.15) {
		q += " ORDER BY c0" + pick(g.draw, "", " DESC")
	}
	if g.chance(0.1) {
		q += fmt.Sprintf(" PER PARTITION LIMIT %d", 1+g.IntN(2))
	}
	if g.chance(0.2) {
		q += fmt.Sprintf(" LIMIT %d", 1+g.IntN(4))
	}
	return q + " ALLOW FILTERING"
}

// selector draws a selected expression.
func (g *typed) selector(depth int) string {
	c := pick(g.draw, g.all()...)
	s := c.name
	if depth > 0 {
		s = g.selector(depth - 1)
	}
	other := g.scalar(false)
	switch g.IntN(22) {
	case 0:
		return "CAST(" + s + " AS " + other.name + ")"
	case 1:
		return pick(g.draw, "to_json(", "toJson(") + s + ")"
	case 2:
		return pick(g.draw, "writetime(", "maxwritetime(", "ttl(") + c.name + ")"
	case 3:
		return pick(g.draw, "min(", "max(", "sum(", "avg(", "count(") + s + ")"
	case 4:
		return pick(g.draw, "abs(", "exp(", "log(", "log10(", "round(") + s + ")"
	case 5:
		return pick(g.draw, "map_keys(", "map_values(", "collection_count(", "collection_min(", "collection_max(",
			"collection_sum(", "collection_avg(") + s + ")"
	case 6:
		return pick(g.draw, "mask_default(", "mask_null(", "mask_hash(") + s + ")"
	case 7:
		return fmt.Sprintf("mask_%s(%s, %s, %s)", pick(g.draw, "inner", "outer"), s, pick(g.draw, "1", "null", "0"),
			pick(g.draw, "1", "null", "2"))
	case 8:
		return s + pick(g.draw, " + ", " - ", " * ", " / ", " % ") + g.literal(c.kind)
	case 9:
		return pick(g.draw, "to_date(", "to_timestamp(", "to_unix_timestamp(", "min_timeuuid(", "max_timeuuid(") + s +
			")"
	case 10:
		return c.kind.base() + pick(g.draw, "_as_blob(", "AsBlob(") + s + ")"
	case 11:
		return g.element(c)
	case 12:
		if c.base() == "map" || c.base() == "set" {
			from, to := pick(g.draw, "", g.literal(c.parts[0])), pick(g.draw, "", g.literal(c.parts[0]))
			return fmt.Sprintf("%s[%s..%s]", c.name, from, to)
		}
	case 13:
		return "token(" + g.partition[0].name + ")"
	case 14:
		return "-" + s
	case 15:
		return "(" + pick(g.draw, c.kind.name, other.name) + ") " + s
	case 16:
		return "mask_replace(" + s + ", " + g.literal(c.kind) + ")"
	case 17:
		return "[" + s + ", " + s + "]"
	case 18:
		return "(" + s + ", " + c.name + ")"
	}
	return s
}
