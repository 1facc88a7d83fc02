// SPDX-License-Identifier: Apache-2.0

//go:build integration

package random

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// draw generates random statements for the following table
//
//	t (k int, a int, b int, s int static, v int, w text, l list<int>,
//	  m map<int, int>, st set<int>, f frozen<list<int>>, PRIMARY KEY (k, a, b))
type draw struct{ *rand.Rand }

func (d draw) n() int                { return d.IntN(5) }
func (d draw) k() int                { return d.IntN(4) }
func (d draw) chance(p float64) bool { return d.Float64() < p }

func pick[T any](d draw, of ...T) T { return of[d.IntN(len(of))] }

// list draws up to three elements between brackets. With pairs, the elements are entries of a map.
func (d draw) list(open, end string, pairs bool) string {
	var out []string
	for _, x := range d.Perm(5)[:d.IntN(4)] {
		s := fmt.Sprint(x)
		if pairs {
			s += fmt.Sprintf(": %d", d.n())
		}
		out = append(out, s)
	}
	return open + strings.Join(out, ", ") + end
}

func (d draw) value(column string) string {
	if d.chance(0.15) {
		return "null"
	}
	switch column {
	case "v", "s":
		return fmt.Sprint(d.n())
	case "w":
		return pick(d, "''", "'a'", "'b'", "'zz'")
	case "m":
		return d.list("{", "}", true)
	case "st":
		return d.list("{", "}", false)
	}
	return d.list("[", "]", false)
}

func (d draw) using(ttl bool) string {
	s := fmt.Sprintf(" USING TIMESTAMP %d", 1+d.IntN(12))
	if ttl && d.chance(0.1) {
		s += fmt.Sprintf(" AND TTL %d", pick(d, 0, 1000, 2000))
	}
	return s
}

func (d draw) row() string { return fmt.Sprintf("k = %d AND a = %d AND b = %d", d.k(), d.n(), d.n()) }

func (d draw) columns() []string {
	all := []string{"v", "w", "l", "m", "st", "f"}
	d.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:d.IntN(4)]
}

// schema draws two tables. Table t has random clustering orders and a random index, and table c has counters.
func (d draw) schema() []string {
	out := []string{
		"DROP KEYSPACE IF EXISTS compared",
		"CREATE KEYSPACE compared WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"USE compared",
		fmt.Sprintf("CREATE TABLE t (k int, a int, b int, s int static, v int, w text, l list<int>, "+
			"m map<int, int>, st set<int>, "+
			"f frozen<list<int>>, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a %s, b %s)",
			pick(d, "ASC", "DESC"), pick(d, "ASC", "DESC")),
		"CREATE TABLE c (k int, a int, n counter, o counter, s counter static, PRIMARY KEY (k, a))",
	}
	if d.chance(0.5) {
		out = append(out, indexOf(pick(d, "v", "w", "l", "st", "values(m)", "keys(m)", "entries(m)", "a", "s")))
	}
	return out
}

func indexOf(column string) string { return "CREATE INDEX ON t (" + column + ")" }

// change draws a write or a batch of three writes.
func (d draw) change() string {
	s := d.write()
	if d.chance(0.15) {
		s = "BEGIN " + pick(d, "", "UNLOGGED ") + "BATCH " + s + "; " + d.write() + "; " + d.write() + "; APPLY BATCH"
	}
	return s
}

// count draws a change to counters.
func (d draw) count() string {
	by := pick(d, "n = n + ", "n = n - ", "o = o + ") + fmt.Sprint(d.n())
	if d.chance(0.2) {
		by += ", s = s + 1"
	}
	s := fmt.Sprintf("UPDATE c SET %s WHERE k = %d AND a = %d", by, d.k(), d.n())
	if d.chance(0.2) {
		s = fmt.Sprintf("BEGIN COUNTER BATCH %s; UPDATE c SET n = n + 1 WHERE k = %d AND a = %d; APPLY BATCH", s, d.k(),
			d.n())
	}
	return s
}

// conditionalBatch draws a batch of conditional changes to one partition.
func (d draw) conditionalBatch() string {
	k := d.k()
	return fmt.Sprintf("BEGIN BATCH UPDATE t SET v = %d WHERE k = %d AND a = %d AND b = %d IF %s; "+
		"INSERT INTO t (k, a, b, w) VALUES (%d, %d, %d, 'q'); DELETE m[1] FROM t WHERE k = %d AND a = %d AND b = %d; APPLY BATCH",
		d.n(), k, d.n(), d.n(), pick(d, "EXISTS", fmt.Sprintf("v = %d", d.n()), "v = null",
			fmt.Sprintf("s = %d", d.n())),
		k, d.n(), d.n(), k, d.n(), d.n())
}

// shortLived draws a write that expires after a second.
func (d draw) shortLived() string {
	return fmt.Sprintf("UPDATE t USING TTL 1 AND TIMESTAMP %d SET v = %d, m = m + %s, s = %d WHERE %s", 1+d.IntN(12),
		d.n(),
		d.list("{", "}", true), d.n(), d.row())
}

// write draws an INSERT, UPDATE, or DELETE.
func (d draw) write() string {
	switch x := d.Float64(); {
	case x < 0.3:
		return d.insert()
	case x < 0.35:
		return fmt.Sprintf("INSERT INTO t (k, s) VALUES (%d, %s)%s", d.k(), d.value("s"), d.using(true))
	case x < 0.65:
		return d.update()
	case x < 0.7:
		return fmt.Sprintf("DELETE FROM t%s WHERE k = %d", d.using(false), d.k())
	case x < 0.8:
		return fmt.Sprintf("DELETE FROM t%s WHERE k = %d AND a %s %d", d.using(false), d.k(),
			pick(d, "=", ">", ">=", "<", "<="), d.n())
	case x < 0.85:
		return fmt.Sprintf("DELETE FROM t%s WHERE k = %d AND a = %d AND b %s %d", d.using(false), d.k(), d.n(),
			pick(d, "=", ">", ">=", "<", "<="), d.n())
	case x < 0.9:
		return fmt.Sprintf("DELETE FROM t%s WHERE k = %d AND (a, b) %s (%d, %d)", d.using(false), d.k(),
			pick(d, ">", ">=", "<"), d.n(), d.n())
	}
	what := pick(d, "v", "w", "m", "l", fmt.Sprintf("m[%d]", d.n()), fmt.Sprintf("st[%d]", d.n()),
		fmt.Sprintf("l[%d]", d.IntN(3)), "v, m[1]")
	return fmt.Sprintf("DELETE %s FROM t%s WHERE %s", what, d.using(false), d.row())
}

func (d draw) insert() string {
	names, values := []string{"k", "a", "b"}, []string{fmt.Sprint(d.k()), fmt.Sprint(d.n()), fmt.Sprint(d.n())}
	columns := d.columns()
	if d.chance(0.3) {
		columns = append(columns, "s")
	}
	for _, c := range columns {
		names, values = append(names, c), append(values, d.value(c))
	}
	return fmt.Sprintf("INSERT INTO t (%s) VALUES (%s)%s", strings.Join(names, ", "), strings.Join(values, ", "),
		d.using(true))
}

func (d draw) update() string {
	var set []string
	for _, c := range append(d.columns(), "v") {
		if c == "v" && len(set) > 0 {
			continue
		}
		set = append(set, d.assignment(c))
	}
	where := d.row()
	if d.chance(0.15) {
		where = fmt.Sprintf("k IN (%d, %d) AND a = %d AND b IN (%d, %d)", d.k(), d.k(), d.n(), d.n(), d.n())
	}
	return fmt.Sprintf("UPDATE t%s SET %s WHERE %s", d.using(true), strings.Join(set, ", "), where)
}

func (d draw) assignment(c string) string {
	if d.chance(0.3) {
		return c + " = " + d.value(c)
	}
	list, set := d.list("[", "]", false), d.list("{", "}", false)
	switch c {
	case "l":
		return pick(d, "l = l + "+list, "l = "+list+" + l", "l = l - "+list,
			fmt.Sprintf("l[%d] = %s", d.IntN(4), d.value("v")))
	case "m":
		return pick(d, "m = m + "+d.list("{", "}", true), "m = m - "+set,
			fmt.Sprintf("m[%d] = %s", d.n(), d.value("v")))
	case "st":
		return pick(d, "st = st + ", "st = st - ") + set
	}
	return c + " = " + d.value(c)
}

// conditional draws a lightweight transaction.
func (d draw) conditional() string {
	n := d.n
	condition := pick(d, "EXISTS", fmt.Sprintf("v = %d", n()), fmt.Sprintf("v != %d", n()), fmt.Sprintf("v > %d", n()),
		fmt.Sprintf("v IN (%d, %d)", n(), n()),
		fmt.Sprintf("s = %d", n()), fmt.Sprintf("m[%d] = %d", n(), n()), "l = "+d.list("[", "]", false),
		"st = "+d.list("{", "}", false), "v = null",
		fmt.Sprintf("w = null AND v = %d", n()), "f = "+d.list("[", "]", false), fmt.Sprintf("l[0] = %d", n()))
	return pick(d, fmt.Sprintf("INSERT INTO t (k, a, b, v) VALUES (%d, %d, %d, %d) IF NOT EXISTS", d.k(), n(), n(),
		n()),
		fmt.Sprintf("UPDATE t SET v = %d WHERE %s IF %s", n(), d.row(), condition),
		fmt.Sprintf("DELETE FROM t WHERE %s IF %s", d.row(), condition))
}

func (d draw) operator() string { return pick(d, ">", ">=", "<", "<=") }

// restrictions draws a WHERE clause.
func (d draw) restrictions() []string {
	var w []string
	add := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	switch x := d.Float64(); {
	case x < 0.5:
		add("k = %d", d.k())
	case x < 0.65:
		add("k IN (%d, %d, %d)", d.k(), d.k(), d.k())
	case x < 0.75:
		add("token(k) %s token(%d)", d.operator(), d.k())
	}
	second := false
	switch x := d.Float64(); {
	case x < 0.15:
		add("a = %d", d.n())
		second = true
	case x < 0.25:
		add("a IN (%d, %d)", d.n(), d.n())
		second = true
	case x < 0.4:
		add("a %s %d", d.operator(), d.n())
	case x < 0.5:
		add("a >= %d AND a < %d", d.n(), d.n())
	case x < 0.6:
		add("(a, b) %s (%d, %d)", d.operator(), d.n(), d.n())
	case x < 0.66:
		add("(a, b) IN ((%d, %d), (%d, %d))", d.n(), d.n(), d.n(), d.n())
	case x < 0.7:
		add("(a, b) > (%d, %d) AND (a) < (%d)", d.n(), d.n(), d.n())
	}
	if second && d.chance(0.7) || d.chance(0.1) {
		w = append(w, pick(d, fmt.Sprintf("b = %d", d.n()), fmt.Sprintf("b %s %d", d.operator(), d.n()),
			fmt.Sprintf("b IN (%d, %d)", d.n(), d.n())))
	}
	if d.chance(0.2) {
		n := d.n()
		w = append(w, pick(d, fmt.Sprintf("v = %d", n), fmt.Sprintf("v > %d", n), fmt.Sprintf("s = %d", n),
			fmt.Sprintf("m CONTAINS %d", n),
			fmt.Sprintf("m CONTAINS KEY %d", n), fmt.Sprintf("st CONTAINS %d", n), fmt.Sprintf("l CONTAINS %d", n),
			fmt.Sprintf("m[%d] = %d", n, d.n()), "w = 'a'"))
	}
	return w
}

// query draws a SELECT.
func (d draw) query() string {
	selection, group := pick(d, "*", "*", "*", "DISTINCT k, s", "k, a, b, writetime(v), v",
		"count(*), max(v), min(w), sum(b)", "count(v), k, s",
		"k, a, b, s", "k, a, count(*), max(b), sum(v)", "JSON k, a, m, st, l, w", "m[1], st, l, a"), ""
	q := "SELECT " + selection + " FROM t"
	if w := d.restrictions(); len(w) > 0 {
		q += " WHERE " + strings.Join(w, " AND ")
	}
	if strings.HasPrefix(selection, "k, a, ") && d.chance(0.5) {
		group = " GROUP BY " + pick(d, "k", "k, a", "k, a, b")
	}
	q += group
	switch x := d.Float64(); {
	case x < 0.25:
		q += " ORDER BY a " + pick(d, "ASC", "DESC")
	case x < 0.35:
		q += " ORDER BY a " + pick(d, "ASC", "DESC") + ", b " + pick(d, "ASC", "DESC")
	}
	if d.chance(0.15) {
		q += fmt.Sprintf(" PER PARTITION LIMIT %d", 1+d.IntN(3))
	}
	if d.chance(0.25) {
		q += fmt.Sprintf(" LIMIT %d", 1+d.IntN(6))
	}
	if d.chance(0.7) {
		q += " ALLOW FILTERING"
	}
	return q
}
