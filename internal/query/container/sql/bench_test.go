// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

// benchItems returns items of 1 KB with 20 properties, followed by their system properties.
func benchItems(n int) []document.Value {
	out := make([]document.Value, n)
	for i := range out {
		var b strings.Builder
		fmt.Fprintf(&b, `{"id":"item-%06d","foodGroup":"Group %d","description":"%s","version":%d`, i, i%50,
			strings.Repeat("lorem ipsum ", 20), i%7)
		for p := range 10 {
			fmt.Fprintf(&b, `,"property%d":%d.25`, p, i*p)
		}
		fmt.Fprintf(&b, `,"tags":[{"name":"raw"},{"name":"beef"}],"o":{"p":{"q":%d}},"filler":"%s"}`, i, strings.Repeat("f", 250))
		out[i] = document.View(document.AppendItem(nil, []byte(b.String()),
			&document.System{RID: "gAAKAJwBAAABAAAAAAAAAA==",
				Self: "dbs/gAAKAA==/colls/gAAKAJwBAAA=/docs/gAAKAJwBAAABAAAAAAAAAA==/",
				ETag: `"00000000-0000-0000-0000-000000000001"`, Timestamp: 1700000000}))
	}
	return out
}

// BenchmarkQuery evaluates queries over items of 1 KB. One operation processes one item. The benchmark uses mainly the
// CPU.
func BenchmarkQuery(b *testing.B) {
	items := benchItems(1000)
	for _, c := range []struct{ name, text string }{
		{"where-early", "SELECT * FROM c WHERE c.version = 99"},
		{"where-late", "SELECT * FROM c WHERE c.o.p.q < 0"},
		{"where-three", "SELECT * FROM c WHERE c.version > 100 OR c.property5 < 0 OR c.foodGroup = 'x'"},
		{"all", "SELECT * FROM c"},
		{"project", "SELECT c.id, c.version AS v FROM c"},
		{"join", "SELECT VALUE t.name FROM c JOIN t IN c.tags WHERE t.name = 'none'"},
		{"exists", "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.name = 'none')"},
		{"top-order", "SELECT TOP 10 c.id FROM c ORDER BY c.property5 DESC"},
		{"count", "SELECT VALUE COUNT(1) FROM c"},
		{"sum", "SELECT VALUE SUM(c.property3) FROM c"},
		{"group", "SELECT c.foodGroup, COUNT(1) AS n FROM c GROUP BY c.foodGroup"},
		{"distinct", "SELECT DISTINCT VALUE c.foodGroup FROM c"},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := mustCompile(b, c.text)
			b.SetBytes(int64(len(items[0].String())))
			b.ReportAllocs()
			n := 0
			source := func(yield func(Row, error) bool) {
				for n = 0; b.Loop(); n++ {
					if !yield(Row{Place: "place", Item: items[n%len(items)]}, nil) {
						return
					}
				}
			}
			var buf []byte
			_, err := q.Run(context.Background(), source, Run{}, func(v document.Value) error {
				buf = v.Append(buf[:0])
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkCompile parses and binds typical client queries.
func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, "SELECT c.id, c.n FROM c WHERE c.pk = @p AND c.n > 5 ORDER BY c.n", Parameter{"@p", document.StringValue("x")})
	}
}
