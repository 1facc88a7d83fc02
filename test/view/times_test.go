// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package view tests materialized views on nodes in this process.
package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/testnode"
)

// TestViewTimes checks that writetime and ttl of a view's columns equal the values of the base table's cells. The rows
// were written before and after the creation of the view, and some rows were moved. The test reads the view in pages
// of any size, in reverse, with limits per partition, with filters, by several keys, and with aggregates. The view has
// more rows than one part of a read can return.
func TestViewTimes(t *testing.T) {
	t.Parallel()
	n := testnode.One(t, options.Options{})
	s := testnode.Driver(t, n.CQLAddr().String(), "", "")
	exec := func(text string, args ...any) {
		t.Helper()
		if err := s.Query(text, args...).Exec(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	exec("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	exec("CREATE TABLE ks.t (a int, b text, c int, v int, w text, l set<int>, PRIMARY KEY ((a, b), c)) " +
		"WITH CLUSTERING ORDER BY (c DESC)")
	want := map[string]string{}
	put := func(i, v, ttl int) {
		a, b, c, at := i%3, fmt.Sprint("b", i%5), i, 1_000_000+17*i+v
		exec("INSERT INTO ks.t (a, b, c, v, w) VALUES (?, ?, ?, ?, 'w') USING TIMESTAMP ? AND TTL ?", a, b, c, v, at, ttl)
		exec("UPDATE ks.t USING TIMESTAMP ? SET l = l + {1, 2} WHERE a = ? AND b = ? AND c = ?", at+5, a, b, c)
		want[fmt.Sprint(a, b, c)] = fmt.Sprint(v, at, ttl > 0, []int{at + 5, at + 5})
	}
	for i := range 300 {
		put(i, i%2, 0)
	}
	exec("CREATE MATERIALIZED VIEW ks.m AS SELECT v, c, a, b, w, l FROM ks.t WHERE v IS NOT NULL AND c IS NOT NULL AND " +
		"a IS NOT NULL AND b IS NOT NULL PRIMARY KEY (v, c, a, b)")
	for i := range 400 {
		if i >= 300 || i%7 == 0 {
			put(i, 2+i%2, 10000*(i%3))
		}
	}
	read := func(where string, page int) (map[string]string, []string) {
		t.Helper()
		got, order := map[string]string{}, []string(nil)
		iter := s.Query("SELECT a, b, c, v, writetime(w), ttl(w), writetime(l) FROM ks.m" + where).PageSize(page).Iter()
		var a, c, v, at int
		var ttl *int
		var b string
		var times []int
		for iter.Scan(&a, &b, &c, &v, &at, &ttl, &times) {
			if ttl != nil && (*ttl > 20000 || *ttl < 9000) {
				t.Errorf("a ttl of %d", *ttl)
			}
			name := fmt.Sprint(a, b, c)
			got[name], order = fmt.Sprint(v, at, ttl != nil, times), append(order, name)
			ttl, times = nil, nil
		}
		if err := iter.Close(); err != nil {
			t.Fatal(err)
		}
		return got, order
	}
	eventually.True(t, "the view has followed", func() bool { got, _ := read("", 1000); return maps.Equal(got, want) })
	_, all := read("", 1000)
	for _, page := range []int{1, 7, 99, 100, 101, 250} {
		if got, order := read("", page); !maps.Equal(got, want) || !slices.Equal(order, all) {
			t.Errorf("pages of %d: %d rows of %d", page, len(order), len(all))
		}
	}
	inPartition := func(v int) (names []string) {
		for _, name := range all {
			if strings.HasPrefix(want[name], fmt.Sprint(v, " ")) {
				names = append(names, name)
			}
		}
		return names
	}
	zero, one := inPartition(0), inPartition(1)
	backwards := slices.Clone(zero)
	slices.Reverse(backwards)
	var first []string
	for _, v := range []int{0, 1, 2, 3} {
		first = append(first, inPartition(v)[:3]...)
	}
	slices.Sort(first)
	for where, names := range map[string][]string{
		" WHERE v = 0":                         zero,
		" WHERE v IN (0, 1)":                   append(slices.Clone(zero), one...),
		" WHERE v = 0 ORDER BY c ASC":          backwards,
		" WHERE v = 1 LIMIT 111":               one[:111],
		" WHERE w = 'w' ALLOW FILTERING":       all,
		" WHERE w = 'x' ALLOW FILTERING":       nil,
		" PER PARTITION LIMIT 3":               first,
		" WHERE v = 0 PER PARTITION LIMIT 105": zero[:105],
	} {
		for _, page := range []int{2, 1000} {
			got, order := read(where, page)
			if strings.Contains(where, "PARTITION LIMIT 3") {
				slices.Sort(order)
			}
			if !slices.Equal(order, names) {
				t.Errorf("%s, pages of %d: %d rows, want %d", where, page, len(order), len(names))
			}
			for name, have := range got {
				if have != want[name] {
					t.Errorf("%s: %s has %s, want %s", where, name, have, want[name])
				}
			}
		}
	}
	var most, count int
	if err := s.Query("SELECT max(writetime(w)), count(*) FROM ks.m WHERE v = 3").Scan(&most, &count); err != nil ||
		most != 1_000_000+17*399+3 || count != len(inPartition(3)) {
		t.Errorf("the latest of %d rows is %d, %v", count, most, err)
	}
	s.Close()
}
