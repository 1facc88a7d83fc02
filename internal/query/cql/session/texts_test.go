// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// TestTextMemory checks that a statement with very many short terms is rejected before it is parsed. A statement of the
// same length with a single term must be accepted. The reserved memory must always be released.
func TestTextMemory(t *testing.T) {
	w := newFixture(t, Options{Limits: Limits{TextBytesMax: 8 << 20}})
	w.query(t, "CREATE TABLE ks.texts (k int PRIMARY KEY, l list<int>, b blob)")
	s := w.NewSession(Client{})
	many := func(n int) string { return strings.Repeat("1,", n) + "1" }
	for _, c := range []struct {
		name, text string
		refused    bool
	}{
		{"many terms", "INSERT INTO ks.texts (k, l) VALUES (1, [" + many(1<<20) + "])", true},
		{"many selectors", "SELECT " + strings.Repeat("k,", 1<<20) + "k FROM ks.texts", true},
		{"one term", "INSERT INTO ks.texts (k, b) VALUES (1, 0x" + strings.Repeat("ab", 1<<20) + ")", false},
		{"fewer terms", "INSERT INTO ks.texts (k, l) VALUES (1, [" + many(10_000) + strings.Repeat(" ", 1<<17) + "])",
			false},
		{"a wrong statement", "INSERT INTO ks.texts (k, nosuch) VALUES (1, [" + many(10_000) + strings.Repeat(" ",
			1<<17) + "])", true},
		{"a wrong value", "UPDATE ks.texts SET l = null WHERE k = 'x" + strings.Repeat("x", 1<<17) + "'", true},
		{"a read", "SELECT * FROM ks.texts WHERE k IN (" + many(5000) + strings.Repeat(" ", 1<<17) + ")", false},
	} {
		for name, method := range map[string]func(string) *Result{
			"query": func(text string) *Result {
				return w.call(s, (*Session).Query, Request{Text: []byte(text), Consistency: dberr.One})
			},
			"batch": func(text string) *Result {
				return w.call(s, (*Session).Batch, Request{
					BatchKind: Unlogged, Statements: []BatchStatement{{Text: []byte(text)}}, Consistency: dberr.One,
				})
			},
		} {
			if name == "batch" && strings.HasPrefix(c.text, "SELECT") {
				continue
			}
			r := method(c.text)
			if _, invalid := errors.AsType[*dberr.Invalid](r.Err); invalid != c.refused || r.Err != nil && !c.refused {
				t.Errorf("%s, %s: %v", c.name, name, r.Err)
			}
			if n := w.texts.used.Load(); n != 0 {
				t.Fatalf("%s, %s: %d bytes are still reserved", c.name, name, n)
			}
		}
	}
	t.Run("others hold it all", func(t *testing.T) {
		w.texts.used.Store(8 << 20)
		r := w.call(s, (*Session).Query,
			Request{Text: []byte("INSERT INTO ks.texts (k, l) VALUES (1, [" + many(10_000) + strings.Repeat(" ",
				1<<17) + "])"), Consistency: dberr.One})
		if _, ok := errors.AsType[*dberr.Overloaded](r.Err); !ok {
			t.Errorf("%v, want that it is overloaded", r.Err)
		}
	})
}

// TestPreparedOfWideTables checks that the estimated size of a prepared statement includes the bound columns. The text
// of a SELECT * of a wide table is short.
func TestPreparedOfWideTables(t *testing.T) {
	w := newFixture(t, Options{Limits: Limits{PreparedBytesMax: 4 << 20}})
	columns := make([]string, 1000)
	for i := range columns {
		columns[i] = fmt.Sprintf("c%d int", i)
	}
	w.query(t, "CREATE TABLE ks.wide (k int PRIMARY KEY, "+strings.Join(columns, ", ")+")")
	s := w.NewSession(Client{})
	for i := range 50 {
		w.prepared(t, s, fmt.Sprintf("SELECT * FROM ks.wide WHERE k = %d", i))
	}
	if n := w.PreparedCount(); n > 13 {
		t.Errorf("%d statements of 1000 columns are kept in 4 MiB", n)
	}
}

// TestDeletionsAreBounded checks that a DELETE of too many partitions or rows is rejected. The limit also applies to
// range deletions with IN relations.
func TestDeletionsAreBounded(t *testing.T) {
	w := newFixture(t, Options{})
	w.query(t, "CREATE TABLE ks.ranges (k int, a int, b int, PRIMARY KEY (k, a, b))")
	list := strings.Repeat("0,", 299) + "0"
	for i := range 300 {
		list = strings.Replace(list, "0,", fmt.Sprintf("%d,", i+1), 1)
	}
	for cql, refused := range map[string]bool{
		"DELETE FROM ks.ranges WHERE k IN (" + list + ") AND a IN (" + list + ")":           true,
		"DELETE FROM ks.ranges WHERE k IN (" + list + ") AND a IN (" + list + ") AND b = 1": true,
		"DELETE FROM ks.ranges WHERE k IN (" + list + ") AND a IN (1, 2, 3)":                false,
	} {
		if err := w.try(cql); (err != nil) != refused {
			t.Errorf("%.60s..: %v", cql, err)
		}
	}
}
