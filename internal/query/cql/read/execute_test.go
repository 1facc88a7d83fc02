// SPDX-License-Identifier: Apache-2.0

package read

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
)

type buildOf string

func (b buildOf) Building(ix *schema.Index) bool { return ix.Name == string(b) }

// small returns a fixture with a table that has a few partitions.
func small(t *testing.T) *fixture {
	t.Helper()
	w := newFixture()
	lines := []string{
		"CREATE KEYSPACE ks WITH replication = {}",
		"CREATE TABLE ks.t (k int, c int, v int, PRIMARY KEY (k, c))",
		"CREATE INDEX vi ON ks.t (v)",
	}
	for k := range 4 {
		for c := range 5 {
			lines = append(lines, fmt.Sprintf("INSERT INTO ks.t (k, c, v) VALUES (%d, %d, %d)", k, c, c))
		}
	}
	for _, text := range lines {
		if err := w.set(mustParse(t, text), 0, binds{}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	w.keyspace = "ks"
	return w
}

func (w *fixture) must(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := w.prepare(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

// TestRefusedExecutions checks the errors that only an execution can detect.
func TestRefusedExecutions(t *testing.T) {
	w := small(t)
	if err := w.set(mustParse(t, "CREATE TABLE p (a int, b int, PRIMARY KEY ((a, b)))"), 0, binds{}); err != nil {
		t.Fatal(err)
	}
	in := strings.Repeat("1, ", 299) + "2"
	for _, c := range []struct {
		name, query string
		options     Options
		want        string
	}{
		{"any", "SELECT * FROM t", Options{}, "ANY ConsistencyLevel is only supported for writes"},
		{"serial", "SELECT * FROM t WHERE k IN (1, 2)", Options{Level: dberr.Serial},
			"SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time"},
		{
			"building", "SELECT * FROM t WHERE v = 1",
			Options{Level: dberr.One, Builds: buildOf("vi")},
			"The secondary index 'vi' is not yet available",
		},
		{
			"sort", "SELECT * FROM t WHERE k IN (1, 2) ORDER BY c",
			Options{Level: dberr.One, SortBytesMax: 10},
			"ORDER BY over several partitions exceeds 10 bytes of memory: restrict the query",
		},
		{
			"whole", "SELECT * FROM t",
			Options{Level: dberr.One, ResultBytesMax: 200},
			"The result exceeds 200 bytes, the maximum size of an unpaged result: set a page size or a LIMIT",
		},
		{
			"whole groups", "SELECT JSON k, count(*) FROM t GROUP BY k",
			Options{Level: dberr.One, ResultBytesMax: 50},
			"The result exceeds 50 bytes, the maximum size of an unpaged result: set a page size or a LIMIT",
		},
		{"state", "SELECT * FROM t", Options{Level: dberr.One, PageSize: 1, PagingState: []byte("garbage, much of it")},
			"Invalid value for the paging state"},
		{
			"combinations", "SELECT * FROM p WHERE a IN (" + in + ") AND b IN (" + in + ")",
			Options{Level: dberr.One},
			"The IN restrictions produce 90000 combinations of values; the maximum is 65536",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			page, err := w.executeAt(w.must(t, c.query), c.options)
			if err == nil || err.Error() != c.want {
				t.Fatalf("got %v and %d rows, want %q", err, page.Rows, c.want)
			}
		})
	}
}

// TestIsShort checks which executions are short.
func TestIsShort(t *testing.T) {
	w := small(t)
	for query, want := range map[string][2]bool{ // result for pages of 10 rows and for unpaged results
		"SELECT * FROM t WHERE k = 1":                                  {true, false},
		"SELECT * FROM t WHERE k = 1 AND c = 2":                        {true, true},
		"SELECT count(*) FROM t WHERE k = 1 AND c = 2":                 {true, true},
		"SELECT * FROM t WHERE k = 1 AND c > 2":                        {true, false},
		"SELECT * FROM t WHERE k = 1 AND c IN (2, 3)":                  {true, false},
		"SELECT count(*) FROM t WHERE k = 1":                           {false, false},
		"SELECT * FROM t WHERE k = 1 AND v > 2 ALLOW FILTERING":        {false, false},
		"SELECT * FROM t WHERE v = 2":                                  {false, false},
		"SELECT * FROM t WHERE k IN (1, 2)":                            {false, false},
		"SELECT * FROM t":                                              {false, false},
		"SELECT * FROM t WHERE token(k) = 1 AND c = 2 ALLOW FILTERING": {false, false},
	} {
		p := w.must(t, query)
		if got := [2]bool{p.IsShort(10, 100), p.IsShort(-1, 100)}; got != want {
			t.Errorf("%s: short with and without pages %v, want %v", query, got, want)
		}
		if p.IsShort(101, 100) != want[1] {
			t.Errorf("%s: pages of more rows than allowed are taken for short", query)
		}
	}
}

// TestLimitWithinAPage checks that a paged query is never rejected because of its result size, even if the LIMIT does
// not exceed the page size.
func TestLimitWithinAPage(t *testing.T) {
	w := small(t)
	p := w.must(t, "SELECT * FROM t LIMIT 10")
	o := Options{Level: dberr.One, PageSize: 10, PageBytesMax: 100, ResultBytesMax: 100}
	rows := 0
	for {
		page, err := w.executeAt(p, o)
		if err != nil {
			t.Fatal(err)
		}
		if rows += page.Rows; len(page.PagingState) == 0 {
			break
		}
		o.PagingState = slices.Clone(page.PagingState)
	}
	if rows != 10 {
		t.Errorf("got %d rows, want 10", rows)
	}
}

// scarce is a Memory with a limited number of bytes.
type scarce struct{ left int }

func (s *scarce) Take(int) error { return &dberr.Overloaded{} }

func (s *scarce) Give(n int) { s.left += n }

func (s *scarce) Spare(n int) bool {
	s.left -= n
	return s.left >= 0
}

// TestPagesWithoutMemory checks that a paged query returns all rows even if little memory is available for a page. If
// enough memory is available, pages must have their full size.
func TestPagesWithoutMemory(t *testing.T) {
	w := small(t)
	lines := []string{"CREATE TABLE l (k int, c int, v text, PRIMARY KEY (k, c))"}
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("INSERT INTO l (k, c, v) VALUES (1, %d, '%s')", i,
			strings.Repeat("x", 30_000)))
	}
	for _, text := range lines {
		if err := w.set(mustParse(t, text), 0, binds{}); err != nil {
			t.Fatal(err)
		}
	}
	p := w.must(t, "SELECT c, v FROM l")
	for _, memory := range []*scarce{{left: 0}, {left: 1 << 30}} {
		o := Options{Level: dberr.One, PageSize: 100, Memory: memory}
		rows, pages := 0, 0
		for {
			page, err := w.executeAt(p, o)
			if err != nil {
				t.Fatal(err)
			}
			rows, pages = rows+page.Rows, pages+1
			if len(page.PagingState) == 0 {
				break
			}
			o.PagingState = slices.Clone(page.PagingState)
		}
		if want := map[bool]int{true: 1, false: 7}[memory.left > 0]; rows != 20 || pages != want {
			t.Errorf("%d rows in %d pages, want 20 in %d", rows, pages, want)
		}
	}
}

// TestStateOfOtherKeys checks that a paging state cannot be used for a read of other partition keys.
func TestStateOfOtherKeys(t *testing.T) {
	w := small(t)
	page, err := w.executeAt(w.must(t, "SELECT * FROM t WHERE k = 1"), Options{Level: dberr.One, PageSize: 2})
	if err != nil || len(page.PagingState) == 0 {
		t.Fatal(err)
	}
	_, err = w.executeAt(w.must(t, "SELECT * FROM t WHERE k = 2"),
		Options{Level: dberr.One, PageSize: 2, PagingState: page.PagingState})
	if !errors.Is(err, errState) {
		t.Fatalf("got %v", err)
	}
}

// TestPlansAreShared checks (Q1) with the race detector. Concurrent executions of a plan must return the same result.
func TestPlansAreShared(t *testing.T) {
	w := small(t)
	p := w.must(t, "SELECT k, sum(v), c + 1 FROM t WHERE v >= 0 GROUP BY k ALLOW FILTERING")
	want, err := w.executeAt(p, Options{Level: dberr.One})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				got, err := w.executeAt(p, Options{Level: dberr.One})
				if err != nil || string(got.Cells) != string(want.Cells) {
					t.Errorf("got %x, %v", got.Cells, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
