// SPDX-License-Identifier: Apache-2.0

package container

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/query/container/sql"
)

// drawnValue draws the JSON of a property, or "" for a missing property.
var drawnValue = rapid.OneOf(
	rapid.SampledFrom([]string{"", "null", "true", "false", "0", "-1", "1", "1.5", "256", "1e300", "[]", "{}", `""`}),
	rapid.SampledFrom([]string{`"a"`, `"a\u0000"`, `"\u0000"`, `"\u0001"`, `"\u0002b"`,
		`"` + strings.Repeat("z", 130) + `"`}),
	rapid.Map(rapid.IntRange(-3, 3), func(i int) string { return fmt.Sprint(i) }),
	rapid.Map(rapid.StringMatching(`[a-c]{0,3}`), func(s string) string { return `"` + s + `"` }))

func drawnItem(t *rapid.T) []byte {
	var parts []string
	for _, name := range []string{"a", "b c", "d"} {
		if v := drawnValue.Draw(t, name); v != "" {
			parts = append(parts, `"`+name+`":`+v)
		}
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

func drawnComposite(t *rapid.T) *composite {
	var paths []CompositePath
	names := rapid.Permutation([]string{"a", "b c", "d"}).Draw(t, "paths")
	for _, name := range names[:rapid.IntRange(2, 3).Draw(t, "n")] {
		paths = append(paths, CompositePath{document.Path{name}, rapid.Bool().Draw(t, "descending")})
	}
	return &composite{paths: paths, text: compositePrefix(paths)}
}

// TestCompositeOrder checks that composite index entries sort like the values of their properties if the values have
// different forms. The test also checks that an exact entry implies equal values.
func TestCompositeOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawnComposite(t)
		a, b := drawnItem(t), drawnItem(t)
		ea, eb := valueAt(a, 1, x.text), valueAt(b, 1, x.text)
		got, want := bytes.Compare(ea, eb), 0
		for _, p := range x.paths {
			va, vb := p.Path.Of(document.View(a)), p.Path.Of(document.View(b))
			if want == 0 && !bytes.Equal(document.AppendForm(nil, va), document.AppendForm(nil, vb)) {
				if want = document.Compare(va, vb); p.Descending {
					want = -want
				}
			}
			if got == 0 && isExactComposite(ea) && !document.Equal(va, vb) {
				t.Fatalf("%s and %s have the exact entry %q", a, b, ea)
			}
		}
		if got != want {
			t.Fatalf("%s has %q, %s has %q: %d, want %d", a, ea, b, eb, got, want)
		}
		if !isComposite(ea) || !hasEntry(a, 1, ea) || hasEntry(a, 1, eb) != (got == 0) {
			t.Fatalf("%s and its entry %q", a, ea)
		}
	})
}

// TestCompositeInterval checks that the interval of a filter contains the entries of all matching items. For scalars
// with different forms, the interval must contain no other entries.
func TestCompositeInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawnComposite(t)
		n := rapid.IntRange(0, len(x.paths)-1).Draw(t, "fixed")
		item := drawnItem(t)
		value := func(i int) document.Value { return x.paths[i].Path.Of(document.View(item)) }
		eq := equals{}
		for i := range n {
			if v := value(i); v.Kind() >= document.Array {
				return
			}
			eq[x.paths[i].Path.String()] = value(i)
		}
		limit := drawnValue.Draw(t, "limit")
		if limit == "" || limit[0] == '[' || limit[0] == '{' {
			return
		}
		op := rapid.SampledFrom([]string{"<", "<=", ">", ">=", "=", "STARTSWITH"}).Draw(t, "op")
		name := x.paths[n].Path[0]
		text := fmt.Sprintf("SELECT * FROM c WHERE c[%q] %s %s", name, op, limit)
		if op == "STARTSWITH" {
			text = fmt.Sprintf("SELECT * FROM c WHERE STARTSWITH(c[%q], %s)", name, limit)
		}
		q, err := sql.Compile(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		holds, err := q.Matches(t.Context(), document.View(item), sql.Run{})
		if err != nil {
			t.Fatal(err)
		}
		prefix, fixed := x.prefix(eq)
		in, narrowed := x.interval(prefix, fixed, conjuncts(q.Filter()))
		if fixed != n || narrowed != (q.Filter() != nil) {
			t.Fatalf("%s: %d of %d, %v", text, fixed, n, narrowed)
		}
		entry := valueAt(item, 1, x.text)
		got := bytes.Compare(in.from, entry) <= 0 && bytes.Compare(entry, in.to) < 0
		if holds && !got || got && !holds && len(limit) < document.FormBytesMax && narrowed {
			t.Fatalf("%s of %s, %+v: %v, want %v", text, item, x.paths, got, holds)
		}
	})
}
