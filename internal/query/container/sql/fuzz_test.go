// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
)

// FuzzParse checks QS1 and QS2. No text may cause a panic in the parser, the printer, or an evaluation. The printed
// form of a query must be a valid query with the same printed form.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.HasPrefix(line, "SELECT") || strings.HasPrefix(line, "FROM") {
				f.Add(line)
			}
		}
	}
	item := parseItem(f, `{"id":"1","a":1,"n":2,"arr":[1,2,3],"tags":["x"],"o":{"p":null},"_rid":"r"}`)
	params := []Parameter{{"@p", document.NumberValue(1)}, {"@x", document.NumberValue(2)}}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := Parse(text)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Start > e.End || e.JSON() == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		printed := tree.String()
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("%q was printed as %q, which does not parse: %v", text, printed, err)
		}
		if s := again.String(); s != printed {
			t.Fatalf("%q was printed as %q and then as %q", text, printed, s)
		}
		q, err := Compile(text, params)
		if err != nil {
			return
		}
		Plan(q, nil)
		q.Filter()
		q.Keys([]document.Path{{"a"}})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, _ = q.Run(ctx, rowsOf([]document.Value{item, item}), Run{Page: 10, Bounds: Bounds{Memory: 1 << 20}},
			func(v document.Value) error {
				v.Append(nil)
				return nil
			})
	})
}
