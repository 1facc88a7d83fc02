// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/function/script"
	"github.com/ilion-db/ilion/test/eventually"
)

var (
	tInt  = cqltype.Native(cqltype.Int)
	tText = cqltype.Native(cqltype.Text)
)

// fn returns a function f(x) in the given language.
func fn(language, body string, arg, returns *cqltype.Type) *schema.Function {
	return &schema.Function{Keyspace: "ks", Name: "f", ArgNames: []string{"x"}, Args: []*cqltype.Type{arg},
		Returns: returns, Nulls: true, Language: language, Body: body}
}

func intOf(n byte) []byte { return []byte{0, 0, 0, n} }

// TestJavaScriptBodies checks the results of JavaScript functions. As in Cassandra 4.0, a function returns the value of
// the last executed statement, or the value of a return statement.
func TestJavaScriptBodies(t *testing.T) {
	f := New(script.New(script.Bounds{}), compat.Cassandra50, true)
	list, maps := cqltype.ListOf(tInt), cqltype.MapOf(tText, tInt)
	udt := cqltype.UDTOf("ks", "u", []string{"a", "size"}, []*cqltype.Type{tInt, tText})
	numbers := list.AppendCollection(nil, intOf(1), intOf(2), intOf(3))
	entries := maps.AppendCollection(nil, []byte("size"), intOf(1), []byte("y"), intOf(2))
	for _, c := range []struct {
		body         string
		arg, returns *cqltype.Type
		value        []byte
		want         string
	}{
		{"x + 1;", tInt, tInt, intOf(7), "8"},
		{"return x + 1", tInt, tInt, intOf(7), "8"},
		{"if (x === null) -1; else x * 2", tInt, tInt, nil, "-1"},
		{"var s = 0; for (var i = 0; i < 5; i++) s += i; s", tInt, tInt, nil, "10"},
		{"x / 2", tInt, tInt, intOf(7), "3"},
		{"1e300", tInt, tInt, intOf(7), "2147483647"},
		{"null", tInt, tInt, intOf(7), ""},
		{"x.toUpperCase()", tText, tText, []byte("a"), "'A'"},
		{"x.size() + x.get(0) + x[2]", list, tInt, numbers, "7"},
		{"x.map(e => e * 2)", list, list, numbers, "[2, 4, 6]"},
		{"x.put('z', 9); x", maps, maps, entries, "{'size': 1, 'y': 2, 'z': 9}"},
		{"x.y + Object.keys(x).length", maps, tInt, entries, "4"},
		{"x.setInt('a', x.getInt('a') + 1); x", udt, udt, udt.AppendTuple(nil, intOf(1), []byte("s")),
			"{a: 2, size: 's'}"},
		{"x.getTime() + 1", cqltype.Native(cqltype.Timestamp), cqltype.Native(cqltype.Bigint), make([]byte, 8), "1"},
		{"x", cqltype.Native(cqltype.UUID), cqltype.Native(cqltype.UUID), make([]byte, 16),
			"00000000-0000-0000-0000-000000000000"},
		{"x", cqltype.Native(cqltype.Blob), cqltype.Native(cqltype.Blob), []byte{0xca, 0xfe}, "0xcafe"},
	} {
		call, err := f.Compile(fn(JavaScript, c.body, c.arg, c.returns))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		out, err := call(nil, [][]byte{c.value})
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		got := ""
		if out != nil {
			got = c.returns.Format(out)
		}
		if got != c.want {
			t.Errorf("%s gives %s, want %s", c.body, got, c.want)
		}
	}
}

// TestRefused checks that CREATE FUNCTION rejects invalid functions.
func TestRefused(t *testing.T) {
	f := New(script.New(script.Bounds{}), compat.Cassandra50, true)
	for body, want := range map[string]string{
		"x +":                             "cannot be compiled",
		"}); (function(x, udfContext) {":  "cannot be compiled",
		"}), (function(x, udfContext) {1": "braces do not match",
		"(function*() { yield* x })()":    "cannot be compiled",
	} {
		err := f.Check(context.Background(), fn(JavaScript, body, tInt, tInt))
		if invalid := (*dberr.Invalid)(nil); !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	bad := fn(JavaScript, "1", tInt, tInt)
	bad.ArgNames[0] = "x){}, function("
	if err := f.Check(context.Background(), bad); err == nil {
		t.Error("a name that is no name is taken")
	}
	if err := f.Enabled("lua"); err == nil {
		t.Error("lua is taken")
	}
	if err := New(nil, compat.Cassandra50, false).Enabled(Java); err == nil {
		t.Error("functions are made although they are switched off")
	}
}

// TestHostile checks (FN2) for JavaScript. The caller must receive an error from the function. Other functions must not
// be affected.
func TestHostile(t *testing.T) {
	f := New(script.New(script.Bounds{}), compat.Cassandra50, true)
	for _, body := range []string{
		"while (true) { }",
		"var s = 'ab'; while (true) s += s;",
		"var a = []; while (true) a.push(a);",
		"(function g() { g(); })()",
		"throw new Error('boom')",
		"'text'",
		"x.y.z",
		"globalThis.leak = 1; Object.prototype.leak = 1; Array.prototype.leak = 1; throw 1",
		"var a = [1]; a.length = 4294967295; a",
		"({get a() { while (true) { } }})",
		"eval('1')",
	} {
		call, err := f.Compile(fn(JavaScript, body, tInt, tInt))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		_, err = call(nil, [][]byte{intOf(1)})
		if failure := (*dberr.FunctionFailure)(nil); !errors.As(err, &failure) || failure.Keyspace != "ks" ||
			failure.Function != "f" || len(failure.ArgTypes) != 1 {
			t.Errorf("%s: %v", body, err)
		}
		clean, _ := f.Compile(fn(JavaScript, "typeof leak === 'undefined' && x.leak === undefined ? 5 : 6", tInt, tInt))
		// The function may run for 500 ms, even on a slow machine.
		eventually.None(t, "another function", eventually.Limit, func() string {
			out, err := clean(nil, [][]byte{intOf(1)})
			if err != nil {
				return err.Error()
			}
			if string(out) != string(intOf(5)) {
				t.Errorf("after %s another function gives %v", body, out)
			}
			return ""
		})
	}
}

// TestVersions checks (FN1). Replacing a function must create a different function. The test also checks concurrent
// calls and the error texts of each release.
func TestVersions(t *testing.T) {
	f := New(script.New(script.Bounds{}), compat.Cassandra40, true)
	for i, body := range []string{"return 1;", "return 2;"} {
		call, err := f.Compile(fn(Java, body, tInt, tInt))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if out, err := call(nil, [][]byte{nil}); err != nil || int(out[3]) != i+1 {
					t.Errorf("%s gives %v, %v", body, out, err)
				}
			})
		}
		all.Wait()
	}
	call, _ := f.Compile(fn(Java, `throw new RuntimeException("boom");`, tInt, tInt))
	_, err := call(nil, [][]byte{nil})
	if want := "execution of 'ks.f[int]' failed: java.lang.RuntimeException: boom"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
