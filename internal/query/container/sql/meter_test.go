// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// allocated returns the number of bytes that f allocates, including garbage.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// large returns an item of about 100 KB with arrays.
func large() document.Value {
	return document.View([]byte(`{"id":"one","t":"` + strings.Repeat("x", 90_000) + `","q":"` +
		strings.Repeat(`\n`, 1000) +
		`","m":[{"t":"` + strings.Repeat("x", 2000) + `","a":[` + strings.Repeat("1,", 999) + `1],"z":1}],` +
		`"a":[` + strings.Repeat("1,", 1999) + `1],"b":[` + strings.Repeat("2,", 1999) + `2],"o":{"x":1,"y":2}}`))
}

// runLarge evaluates a query over the item with limits.
func runLarge(t *testing.T, ctx context.Context, text string, l meter.Limits) (results int, err error) {
	t.Helper()
	q, err := Compile(text, nil)
	if err != nil {
		return 0, err
	}
	m := meter.New(ctx, l)
	defer m.Close()
	source := func(yield func(Row, error) bool) { yield(Row{Place: "0", Item: large()}, nil) }
	_, err = q.Run(ctx, source, Run{Meter: m, PageBytes: 4 << 20}, func(v document.Value) error {
		if text := v.Append(nil); len(text) > 2*document.SizeMax {
			t.Errorf("a result has %d bytes", len(text))
		}
		results++
		return nil
	})
	return results, err
}

// nested wraps a value repeatedly and duplicates it at each level.
func nested(depth int, open, end string) string {
	text := "SELECT VALUE c.t FROM c"
	for i := range depth {
		text = fmt.Sprintf("SELECT VALUE %sx%d%s FROM (%s) "+
			"x%d", open, i, strings.ReplaceAll(end, "#", fmt.Sprintf("x%d", i)),
			text, i)
	}
	return text
}

// TestMemory checks that no construct of the language allocates much more than its limit. Each query either succeeds or
// is rejected, and allocates less than 64 MB.
func TestMemory(t *testing.T) {
	many := func(n int, item string) string {
		return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
	}
	members := func(n int, value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "a%d:%s,", i, value)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	selected := func(n int, value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s AS a%d,", value, i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	pool := meter.NewPool(64 << 20)
	for name, text := range map[string]string{
		"array of the item":  "SELECT VALUE [" + many(20_000, "c") + "] FROM c WHERE c.id = 'one'",
		"object of the item": "SELECT VALUE {" + members(20_000, "c") + "} FROM c",
		"selected columns":   "SELECT " + selected(20_000, "c") + " FROM c",
		"concatenations":     "SELECT VALUE c.t" + strings.Repeat(" || c.t", 20_000) + " FROM c",
		"CONCAT":             "SELECT VALUE CONCAT(" + many(20_000, "c.t") + ") FROM c",
		"REPLICATE":          "SELECT VALUE [" + many(5_000, "REPLICATE(c.t, 22)") + "] FROM c",
		"constant REPLICATE": "SELECT VALUE " +
			"[" + many(5_000, "REPLICATE('"+strings.Repeat("a", 50)+"', 10000)") + "] FROM c",
		"constants compared": "SELECT VALUE 1 FROM c WHERE " +
			"" + strings.TrimSuffix(strings.Repeat("c.x = "+
			"REPLICATE('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz', 10000) OR ", 3_000), " OR "),
		"REPLACE": "SELECT VALUE [" + many(2_000, "REPLACE(c.t, 'x', "+
			"'xxxxxxxxxxxxxxxxxxxx')") + "] FROM c",
		"REVERSE":      "SELECT VALUE [" + many(2_000, "REVERSE(c.t)") + "] FROM c",
		"UPPER":        "SELECT VALUE [" + many(2_000, "UPPER(c.t)") + "] FROM c",
		"ToString":     "SELECT VALUE [" + many(2_000, "ToString(c)") + "] FROM c",
		"ARRAY_CONCAT": "SELECT VALUE ARRAY_CONCAT(" + many(2_000, "c.a") + ") FROM c",
		"ARRAY_CONCAT nested": "SELECT VALUE " + strings.Repeat("ARRAY_CONCAT(c.a, "+
			"", 200) + "c.a" + strings.Repeat(")", 200) + " FROM c",
		"ARRAY of a join": "SELECT VALUE ARRAY(SELECT VALUE c FROM x IN c.a JOIN y IN c.b) FROM c",
		"ARRAYs": "SELECT VALUE [" + many(1_000, "ARRAY(SELECT VALUE x FROM x "+
			"IN c.a JOIN y IN c.b WHERE y = 2)") + "] FROM c",
		"sub-queries in FROM": "SELECT VALUE 1 FROM c JOIN (SELECT VALUE ARRAY(SELECT TOP " +
			"90000 VALUE x FROM x IN c.a JOIN y IN c.b)) AS v0" + strings.Repeat("", 1) + subJoins(200),
		"nested arrays":        nested(40, "[", ",#]"),
		"nested objects":       nested(40, "{a:", ",b:#}"),
		"nested concatenation": nested(40, "CONCAT(", ",#)"),
		"ObjectToArray":        "SELECT VALUE [" + many(5_000, "ObjectToArray(c)") + "] FROM c",
		"StringSplit": "SELECT VALUE [" + many(500, "StringSplit(REPLICATE(c.t, "+
			"22), '')") + "] FROM c",
		"StringJoin": "SELECT VALUE [" + many(2_000, "StringJoin(StringSplit(c.t, "+
			"''), 'abc')") + "] FROM c",
		"SetUnion": "SELECT VALUE " + strings.Repeat("SetUnion(ARRAY(SELECT "+
			"VALUE [x, y] FROM x IN c.a JOIN y IN c.b), ", 100) + "c.a" + strings.Repeat(")", 100) + " FROM c",
		"StringToArray": "SELECT VALUE [" + many(2_000, "StringToArray(ToString(c.a))") + "] FROM c",
		"MAKELIST":      "SELECT MAKELIST(c) AS l FROM c JOIN x IN c.a",
		"MAKELISTs": "SELECT " + strings.TrimSuffix(strings.Repeat("MAKELIST(c), "+
			"", 2_000), ", ") + " FROM c JOIN x IN c.a",
		"MIN of texts":               "SELECT VALUE {" + members(1_000, "MIN(REPLICATE(c.t, 20))") + "} FROM c",
		"DISTINCT of a join":         "SELECT DISTINCT VALUE [c.t, x, y] FROM c JOIN x IN c.a JOIN y IN c.b",
		"DISTINCT of different ones": "SELECT DISTINCT VALUE CONCAT(c.t, ToString(RAND())) FROM c JOIN x IN c.a",
		"ORDER BY":                   "SELECT VALUE [c, c] FROM c JOIN x IN c.a ORDER BY c.t",
		"GROUP BY": "SELECT CONCAT(c.t, ToString(RAND())) AS k, COUNT(1) AS n " +
			"FROM c JOIN x IN c.a GROUP BY CONCAT(c.t, ToString(RAND()))",
		"LIKE of a long pattern": "SELECT VALUE c.t LIKE REPLICATE(c.t, 22) FROM c",
		"a large expression":     "SELECT VALUE RegexMatch(c.t, '(((a?b?c?d?){10}){10}){10}x{1000}') FROM c",
	} {
		var results int
		var err error
		took := allocated(func() {
			results, err = runLarge(t, t.Context(), text, meter.Limits{Pool: pool, Bytes: 32 << 20, Steps: 2_000_000})
		})
		if took > 64<<20 {
			t.Errorf("%s: allocated %d MB: %d results, %v", name, took>>20, results, err)
		}
		if used := pool.Used(); used != 0 {
			t.Fatalf("%s: %d bytes of the pool are left in use", name, used)
		}
	}
}

// subJoins returns n inputs that each hold a large array.
func subJoins(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " JOIN (SELECT VALUE ARRAY(SELECT TOP 90000 VALUE x FROM x IN c.a JOIN y IN c.b)) AS w%d", i)
	}
	return b.String()
}

// TestWorkEnds checks that an evaluation ends with its context, at its deadline, and at its work limit, for every kind
// of work.
func TestWorkEnds(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	for name, text := range map[string]string{
		"a join":   "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b JOIN z IN c.a",
		"DISTINCT": "SELECT DISTINCT VALUE x + y FROM c JOIN x IN c.a JOIN y IN c.b JOIN z IN c.a",
		"nested EXISTS": "SELECT VALUE EXISTS(SELECT VALUE 1 FROM x IN c.a JOIN y IN c.b JOIN " +
			"z IN c.a WHERE z = 3) FROM c",
		"ARRAY_CONTAINS": "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE " +
			"ARRAY_CONTAINS(c.a, x + y)",
		"RegexMatch": "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE " +
			"RegexMatch(REPLICATE('a', 500), '(a?){100}b')",
		"LIKE": "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c.t " +
			"LIKE '%xxxxxxxxxxxxxxxxy'",
		"ORs": "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE c.o.x = " +
			"5" + strings.Repeat(" OR c.o.y = 3", 20_000),
		"a filtered ARRAY": "SELECT VALUE ARRAY(SELECT VALUE 1 FROM x IN c.a JOIN y IN c.b JOIN z " +
			"IN c.a WHERE z = 3) FROM c",
		"MAKESET":           "SELECT MAKESET([x, y]) FROM c JOIN x IN c.a JOIN y IN c.b JOIN z IN c.a",
		"equal objects":     "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c = c",
		"members of a join": "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c.zzz = 1",
	} {
		if _, err := runLarge(t, t.Context(), text, meter.Limits{Steps: 300_000}); err == nil ||
			!strings.Contains(err.Error(), "300000 steps") {
			t.Errorf("%s ends with %v at its bound of work", name, err)
		}
		now := time.Unix(0, 0)
		clock := func() time.Time { now = now.Add(20 * time.Millisecond); return now }
		l := meter.Limits{Deadline: time.Unix(1, 0), Clock: fakeclock.Func(clock), Steps: 1 << 60}
		if _, err := runLarge(t, t.Context(), text, l); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s ends with %v at its deadline", name, err)
		}
		q, err := Compile(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		looks := 0
		m := meter.New(ended, meter.Limits{Deadline: time.Unix(9, 0), Clock: fakeclock.Func(func() time.Time {
			if looks++; looks == 3 {
				end()
			}
			return time.Unix(0, 0)
		})})
		source := func(yield func(Row, error) bool) { yield(Row{Place: "0", Item: large()}, nil) }
		_, err = q.Run(t.Context(), source, Run{Meter: m}, func(document.Value) error { return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s ends with %v when its context ends", name, err)
		}
		ended, end = context.WithCancel(t.Context())
	}
	end()
}

// BenchmarkStep measures the duration of one step for each kind of work.
func BenchmarkStep(b *testing.B) {
	const xyz = " FROM c JOIN x IN c.a JOIN y IN c.b JOIN z IN c.a"
	for name, text := range map[string]string{
		"join":                    "SELECT VALUE COUNT(1)" + xyz,
		"numbers":                 "SELECT VALUE SUM(x + y * z)" + xyz + " WHERE x < y OR y > z",
		"DISTINCT":                "SELECT DISTINCT VALUE x + y" + xyz,
		"EXISTS":                  "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE EXISTS(SELECT VALUE 1 FROM y IN c.b WHERE y = 3)",
		"ARRAY":                   "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE ARRAY_LENGTH(ARRAY(SELECT VALUE y FROM y IN c.b)) = 1",
		"ARRAY_LENGTH":            "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE ARRAY_LENGTH(c.a) = x",
		"ARRAY_CONTAINS":          "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE ARRAY_CONTAINS(c.a, x + y)",
		"ARRAY_CONTAINS of parts": "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE ARRAY_CONTAINS([c], {o: {x: 3}}, true)",
		"SetIntersect":            "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE ARRAY_LENGTH(SetIntersect(c.a, c.b)) = 1",
		"equal objects":           "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c = c",
		"equal arrays":            "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c.a = c.a",
		"equal small objects":     "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c.o = {x: 1, y: x}",
		"equal texts":             "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c.t = c.q",
		"members":                 "SELECT VALUE COUNT(1) FROM c JOIN x IN c.m JOIN y IN c.b JOIN z IN c.a WHERE x.t = 1",
		"members of arrays":       "SELECT VALUE COUNT(1) FROM c JOIN x IN c.m JOIN y IN c.b JOIN z IN c.a WHERE x.z = 2",
		"elements":                "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE c.a[1999] = x",
		"RegexMatch":              "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE RegexMatch(REPLICATE('a', 500), '(a?){100}b')",
		"RegexMatch of a text":    "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE RegexMatch(c.t, 'xxy')",
		"LIKE":                    "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE c.t LIKE '%xxxxxxxxxxxxxxxxy'",
		"CONTAINS":                "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE CONTAINS(c.t, 'xxxxxxxxxy')",
		"CONTAINS of any case":    "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE CONTAINS(c.t, 'xxxxxxxxxY', true)",
		"UPPER":                   "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE UPPER(c.t) = 'X'",
		"REVERSE":                 "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE REVERSE(c.t) = 'X'",
		"REPLACE":                 "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE REPLACE(c.t, 'x', 'yy') = 'X'",
		"ToString":                "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE ToString(c.a) = 'X'",
		"StringToArray":           "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE ARRAY_LENGTH(StringToArray(ToString(c.a))) = 1",
		"LENGTH":                  "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.b WHERE LENGTH(c.t) = x",
		"IS_DEFINED":              "SELECT VALUE COUNT(1)" + xyz + " WHERE IS_DEFINED(x)",
		"ORs":                     "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a WHERE c.o.x = 5" + strings.Repeat(" OR c.o.y = 3", 2_000),
		"IN":                      "SELECT VALUE COUNT(1)" + xyz + " WHERE x IN (y, z, 5, 6, 7)",
	} {
		b.Run(name, func(b *testing.B) {
			q, err := Compile(text, nil)
			if err != nil {
				b.Fatal(err)
			}
			steps := int64(0)
			for b.Loop() {
				m := meter.New(b.Context(), meter.Limits{Steps: 3_000_000})
				source := func(yield func(Row, error) bool) { yield(Row{Place: "0", Item: large()}, nil) }
				_, _ = q.Run(b.Context(), source, Run{Meter: m}, func(document.Value) error { return nil })
				steps += m.Excess()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
		})
	}
}

// TestPartialPages checks that pages that end at their work limit together contain the results of a single page.
func TestPartialPages(t *testing.T) {
	q, err := Compile("SELECT VALUE [c.id, x, y] FROM c JOIN x IN c.a JOIN y IN c.a WHERE (x + y) % 7 = 0", nil)
	if err != nil {
		t.Fatal(err)
	}
	source := func(start string) Source {
		return func(yield func(Row, error) bool) {
			for _, place := range []string{"1", "2", "3"} {
				item := `{"id":"` + place + `","a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}`
				if place >= start && !yield(Row{Place: place, Item: document.View([]byte(item))}, nil) {
					return
				}
			}
		}
	}
	var want, got []string
	if _, err := q.Run(t.Context(), source(""), Run{}, func(v document.Value) error {
		want = append(want, v.String())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var after *Continuation
	pages := 0
	for {
		m := meter.New(t.Context(), meter.Limits{Steps: 20_000})
		run := Run{After: after, Meter: m}
		next, err := q.Run(t.Context(), source(after.Start()), run, func(v document.Value) error {
			got = append(got, v.String())
			return m.Step(4000)
		})
		if err != nil {
			t.Fatal(err)
		}
		if pages++; next == nil {
			break
		}
		if after, err = ParseContinuation(next.String()); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || pages < 10 {
		t.Errorf("%d results on %d pages, want %d", len(got), pages, len(want))
	}
}
