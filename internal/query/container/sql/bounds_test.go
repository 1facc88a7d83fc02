// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// endless returns an infinite source of small items. It ends when stop returns true.
func endless(t testing.TB, stop func(i int) bool) Source {
	item := parseItem(t, `{"id":"1","a":1,"arr":[1,2,3,4,5,6,7,8,9,10]}`)
	return func(yield func(Row, error) bool) {
		for i := 0; !stop(i); i++ {
			v := document.With(item, "id", document.IntegerValue(int64(i)))
			if !yield(Row{Place: document.IntegerValue(int64(1e9 + i)).String(), Item: v}, nil) {
				return
			}
		}
	}
}

// TestMemoryIsBounded checks QS4. Sorts, groups, and DISTINCT must fail at the memory limit with an error that
// suggests a solution. A sort keeps only one page of results in memory if the query needs only one page.
func TestMemoryIsBounded(t *testing.T) {
	never := func(int) bool { return false }
	for _, text := range []string{"SELECT * FROM c ORDER BY c.id", "SELECT c.id FROM c GROUP BY c.id",
		"SELECT DISTINCT c.id FROM c",
		"SELECT VALUE MAKELIST(c.id) FROM c"} {
		_, err := mustCompile(t, text).Run(context.Background(), endless(t, never),
			Run{Bounds: Bounds{Memory: 100_000}},
			func(document.Value) error { return nil })
		limit, ok := errors.AsType[*LimitError](err)
		if !ok || !strings.Contains(limit.Message, "restrict the query with WHERE") {
			t.Errorf("%s: %v", text, err)
		}
	}
	n := 0
	_, err := mustCompile(t, "SELECT TOP 10 * FROM c ORDER BY c.id DESC").Run(context.Background(),
		endless(t, func(i int) bool { return i == 20_000 }), Run{Bounds: Bounds{Memory: 100_000}},
		func(v document.Value) error {
			if want := 19_999 - n; v.Get("id").Float() != float64(want) {
				t.Errorf("result %d is %v", n, v)
			}
			n++
			return nil
		})
	if err != nil || n != 10 {
		t.Errorf("the largest ten: %d results, %v", n, err)
	}
}

// TestRunsStop checks that a run ends with its context, even within one item, and with errors from the sink and the
// source.
func TestRunsStop(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	none := func(document.Value) error { return nil }
	_, err := mustCompile(t, "SELECT * FROM c WHERE false").Run(ctx, endless(t, func(i int) bool {
		if i == 5000 {
			cancel()
		}
		return false
	}), Run{}, none)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a run over items: %v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	joins := strings.Repeat(" JOIN %d IN c.arr", 0)
	for i := range 12 {
		joins += " JOIN x" + string(rune('a'+i)) + " IN c.arr"
	}
	found := 0
	_, err = mustCompile(t, "SELECT VALUE xa FROM c"+joins).Run(ctx, endless(t, func(int) bool { return false }), Run{},
		func(document.Value) error {
			if found++; found == 5000 {
				cancel()
			}
			return nil
		})
	if !errors.Is(err, context.Canceled) || found > 10_000 {
		t.Errorf("a run inside an item: %v after %d", err, found)
	}
	stop := errors.New("enough")
	_, err = mustCompile(t, "SELECT * FROM c").Run(context.Background(), endless(t, func(int) bool { return false }),
		Run{},
		func(document.Value) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("the sink's error: %v", err)
	}
	_, err = mustCompile(t, "SELECT * FROM c").Run(context.Background(), func(yield func(Row, error) bool) {
		yield(Row{}, stop)
	}, Run{}, none)
	if !errors.Is(err, stop) {
		t.Errorf("the source's error: %v", err)
	}
}

// TestNesting checks that texts that are too long or too deeply nested are rejected. The printed form of texts at the
// limit must be valid.
func TestNesting(t *testing.T) {
	deep := func(n int) string { return "SELECT VALUE " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) }
	if _, err := Parse(deep(250)); err != nil {
		t.Error(err)
	}
	for _, text := range []string{deep(300), "SELECT VALUE " + strings.Repeat("NOT ", 300) + "true", "SELECT VALUE " +
		strings.Repeat("- ", 300) + "1", "SELECT VALUE " + strings.Repeat("[", 300),
		"SELECT VALUE " + strings.Repeat("(SELECT ", 300),
		"SELECT VALUE c" + strings.Repeat(".a", 300) + " FROM c", "SELECT " + strings.Repeat(" ", TextMax)} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "nested") &&
			!strings.Contains(err.Error(), "steps") &&
			!strings.Contains(err.Error(), "bytes") {
			t.Errorf("%.30s..: %v", text, err)
		}
	}
	long := "SELECT VALUE 1" + strings.Repeat(" + 1", 20_000)
	q := mustCompile(t, long)
	if q.String() != long {
		t.Error("a long chain is printed differently")
	}
}

// TestContinuations checks that a query rejects malformed continuations and continuations of other queries.
func TestContinuations(t *testing.T) {
	items := []document.Value{parseItem(t, `{"id":1}`), parseItem(t, `{"id":2}`)}
	none := func(document.Value) error { return nil }
	q := mustCompile(t, "SELECT * FROM c WHERE c.id > @p", Parameter{"@p", document.NumberValue(0)})
	next, err := q.Run(context.Background(), rowsOf(items), Run{Page: 1}, none)
	if err != nil || next == nil {
		t.Fatal(next, err)
	}
	for _, other := range []*Query{mustCompile(t, "SELECT * FROM c"),
		mustCompile(t, "SELECT * FROM c WHERE c.id > @p", Parameter{"@p", document.NumberValue(1)})} {
		_, err := other.Run(context.Background(), rowsOf(items), Run{After: next}, none)
		if err == nil || !strings.Contains(err.Error(), "belongs to another query") {
			t.Errorf("%s: %v", other, err)
		}
	}
	for _, text := range []string{"", "x", "e30", next.String()[1:], "!!"} {
		if c, err := ParseContinuation(text); err == nil {
			t.Errorf("%q was taken: %v", text, c)
		}
	}
}

// TestPauses checks that a page without results makes progress and that the item at its end is not skipped.
func TestPauses(t *testing.T) {
	item := parseItem(t, `{"id":1}`)
	q := mustCompile(t, "SELECT VALUE c.id FROM c")
	var after *Continuation
	found := 0
	sink := func(document.Value) error {
		found++
		return nil
	}
	for _, place := range []string{"b", "d"} {
		next, err := q.Run(context.Background(), func(yield func(Row, error) bool) { yield(Row{}, Pause{place}) },
			Run{After: after}, sink)
		if err != nil || next == nil || next.Start() != place || found != 0 {
			t.Fatalf("%v from %q, %v, %d found", next, next.Start(), err, found)
		}
		after = next
	}
	back, _ := q.Run(context.Background(), func(yield func(Row, error) bool) { yield(Row{}, Pause{"a"}) },
		Run{After: after}, sink)
	if back.Start() != "d" {
		t.Errorf("a pause before the beginning of its page leads back to %q", back.Start())
	}
	source := func(yield func(Row, error) bool) { yield(Row{Place: "d", Item: item}, nil) }
	_, err := q.Run(context.Background(), source, Run{After: after}, sink)
	if err != nil || found != 1 {
		t.Errorf("%d found, %v", found, err)
	}
}

// TestMatches checks the evaluation of patch conditions.
func TestMatches(t *testing.T) {
	item := parseItem(t, `{"id":"1","n":5}`)
	for text, want := range map[string]bool{"from c where c.n = 5": true, "FROM c WHERE c.n > 5": false,
		"from c where c.x": false,
		"SELECT * FROM c":  true} {
		got, err := mustCompile(t, text).Matches(context.Background(), item, Run{})
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestErrorsForClients checks the error format that SDKs receive.
func TestErrorsForClients(t *testing.T) {
	_, err := Compile("SELECT * FORM c", nil)
	e, ok := errors.AsType[*Error](err)
	const want = `{"errors":[{"severity":"Error","location":{"start":9,"end":13},"code":"SC1001",` +
		`"message":"Syntax error, incorrect syntax near 'FORM'."}]}`
	if !ok || e.JSON() != want {
		t.Errorf("%v", e.JSON())
	}
}

// TestRepeatedConstants checks that IN keeps only one of several equal constants, and that equal constants in an array
// share one expression. Therefore, a long text of repeated constants does not use a multiple of its size in memory.
func TestRepeatedConstants(t *testing.T) {
	q, err := Parse("SELECT * FROM c WHERE c.n IN (1" + strings.Repeat(", 1", 1000) + ", 2, 1.0, '1', c.m, c.m)")
	if err != nil {
		t.Fatal(err)
	}
	in, ok := q.Where.(*In)
	if !ok || len(in.List) != 5 {
		t.Errorf("the condition is %#v, want IN with 5 values: 1, 2, '1', c.m, c.m", q.Where)
	}
	q, err = Parse("SELECT VALUE [" + strings.Repeat("1, '1', ", 1000) + "2] FROM c")
	if err != nil {
		t.Fatal(err)
	}
	array, ok := q.Items[0].Expr.(*ArrayExpr)
	if !ok || len(array.Elements) != 2001 {
		t.Fatalf("the value is %#v, want an array with 2001 elements", q.Items[0].Expr)
	}
	expressions := map[Expr]bool{}
	for _, x := range array.Elements {
		expressions[x] = true
	}
	if len(expressions) > sharedMin+3 {
		t.Errorf("the array has %d expressions, want at most %d", len(expressions), sharedMin+3)
	}
	var text []byte
	if text = array.appendTo(text); !strings.HasSuffix(string(text), `1, "1", 2]`) {
		t.Errorf("the array ends with %s", text[max(0, len(text)-20):])
	}
}
