// SPDX-License-Identifier: Apache-2.0

package parser_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// TestNesting checks (PS1) for every construct that can be nested or chained. The parser must accept a depth of at
// least fifty and reject deeper nesting as a syntax error.
func TestNesting(t *testing.T) {
	nested := func(before, open, inner, shut, after string) func(n int) string {
		return func(n int) string {
			return before + strings.Repeat(open, n) + inner + strings.Repeat(shut, n) + after
		}
	}
	cases := map[string]func(n int) string{
		"tuple":          nested("INSERT INTO t (a) VALUES (", "(", "1", ")", ")"),
		"list":           nested("INSERT INTO t (a) VALUES (", "[", "1", "]", ")"),
		"set":            nested("INSERT INTO t (a) VALUES (", "{", "1", "}", ")"),
		"map":            nested("INSERT INTO t (a) VALUES (", "{1: ", "1", "}", ")"),
		"udt":            nested("INSERT INTO t (a) VALUES (", "{a: ", "1", "}", ")"),
		"hint":           nested("INSERT INTO t (a) VALUES (", "(int)", "1", "", ")"),
		"call":           nested("INSERT INTO t (a) VALUES (", "f(", "1", ")", ")"),
		"sum":            nested("INSERT INTO t (a) VALUES (", "1 + ", "1", "", ")"),
		"product":        nested("INSERT INTO t (a) VALUES (", "1 * ", "1", "", ")"),
		"selected paren": nested("SELECT ", "(", "1", ")", " FROM t"),
		"selected minus": nested("SELECT ", "- ", "v", "", " FROM t"),
		"selected field": nested("SELECT a", ".b", "", "", " FROM t"),
		"selected call":  nested("SELECT ", "f(", "a", ")", " FROM t"),
		"selected cast":  nested("SELECT ", "cast(", "a", " AS int)", " FROM t"),
		"relation":       nested("SELECT * FROM t WHERE ", "(", "a = 1", ")", ""),
		"type":           nested("CREATE TABLE t (k ", "list<", "int", ">", " PRIMARY KEY)"),
		"frozen":         nested("CREATE TABLE t (k ", "frozen<", "u", ">", " PRIMARY KEY)"),
		"cast type":      nested("INSERT INTO t (a) VALUES ((", "list<", "int", ">", ")[])"),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			tree, _, err := parser.Parse(text(50))
			if err != nil {
				t.Fatalf("depth 50: %v", err)
			}
			roundTrip(t, tree)
			for _, n := range []int{1000, 200_000} {
				_, _, err = parser.Parse(text(n))
				if _, ok := errors.AsType[*dberr.Syntax](err); !ok {
					t.Errorf("depth %d: %v, want a syntax error", n, err)
				}
			}
		})
	}
}

// TestBounds checks the limits on the length of a statement and on the number of markers.
func TestBounds(t *testing.T) {
	insert := func(markers int) string {
		return "INSERT INTO t (a) VALUES ([" + strings.Repeat("?,", markers-1) + "?])"
	}
	if _, markers, err := parser.Parse(insert(65535)); err != nil || len(markers) != 65535 {
		t.Errorf("65535 markers: %d, %v", len(markers), err)
	}
	var invalid *dberr.Invalid
	if _, _, err := parser.Parse(insert(65536)); !errors.As(err, &invalid) {
		t.Errorf("65536 markers: %v, want Invalid", err)
	}
	small := parser.Options{TextBytesMax: len("USE ks"), MarkersMax: 2}
	if _, _, err := small.Parse("USE ks"); err != nil {
		t.Errorf("text at the bound: %v", err)
	}
	if _, _, err := small.Parse("USE ks2"); !errors.As(err, &invalid) {
		t.Errorf("text above the bound: %v, want Invalid", err)
	}
}

// TestHugeStatements checks that the parsing time is linear in the length of the text. For these statements, a
// quadratic search for duplicates would take minutes.
func TestHugeStatements(t *testing.T) {
	var update, batch strings.Builder
	update.WriteString("UPDATE t SET ")
	batch.WriteString("BEGIN BATCH ")
	for i := range 100_000 {
		fmt.Fprintf(&update, "c%d = %d, m[%d] = 1, u.f%d = 2, ", i, i, i, i)
		fmt.Fprintf(&batch, "INSERT INTO t (k, v) VALUES (%d, 'abc'); ", i)
	}
	update.WriteString("z = 1 WHERE k = 1")
	batch.WriteString("APPLY BATCH")
	for _, text := range []string{update.String(), batch.String()} {
		if _, _, err := parser.Parse(text); err != nil {
			t.Errorf("%.40s..: %v", text, err)
		}
	}
	if _, _, err := parser.Parse(strings.Replace(update.String(), "z = 1", "c5 = 1", 1)); err == nil {
		t.Error("an assignment that repeats the sixth is accepted")
	}
}

// TestQuoteIdentifier checks that a quoted name parses to the original name.
func TestQuoteIdentifier(t *testing.T) {
	cases := []struct{ name, want string }{
		{"abc", "abc"},
		{"a_1", "a_1"},
		{"Abc", `"Abc"`},
		{"select", `"select"`},
		{"table", `"table"`},
		{"columnfamily", `"columnfamily"`},
		{"user", "user"},
		{"int", "int"},
		{"key", "key"},
		{"1a", `"1a"`},
		{"_a", `"_a"`},
		{"a b", `"a b"`},
		{`a"b`, `"a""b"`},
		{"", `""`},
		{"é", `"é"`},
		{"token", `"token"`},
	}
	for _, c := range cases {
		got := parser.QuoteIdentifier(c.name)
		if got != c.want {
			t.Errorf("QuoteIdentifier(%q) = %s, want %s", c.name, got, c.want)
		}
		tree, _, err := parser.Parse("DELETE " + got + " FROM t WHERE k = 1")
		if err != nil {
			t.Errorf("%s does not parse as a column: %v", got, err)
			continue
		}
		if name := tree.(*parser.Delete).Targets[0].Column.Name; name != c.name {
			t.Errorf("%s reads back as %q", got, name)
		}
	}
}
