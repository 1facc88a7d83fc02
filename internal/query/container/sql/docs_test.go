// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
)

var (
	docBlock = regexp.MustCompile("(?ms)^```(sql|json)\n(.*?)^```")
	docNames = regexp.MustCompile(`(?m)^  ([A-Z][A-Z0-9_ ]+)$`)
)

// TestDocumentation checks the results of the examples in docs/container-queries.md. It also checks that the page
// lists all functions.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/container-queries.md")
	if err != nil {
		t.Fatal(err)
	}
	var items []document.Value
	query, examples := "", 0
	for _, m := range docBlock.FindAllStringSubmatch(string(page), -1) {
		switch {
		case m[1] == "sql":
			query = m[2]
		case query == "":
			for line := range strings.SplitSeq(strings.TrimSpace(m[2]), "\n") {
				items = append(items, parseItem(t, line))
			}
		default:
			var out strings.Builder
			_, err := mustCompile(t, query).Run(context.Background(), rowsOf(items), Run{},
				func(v document.Value) error {
					out.WriteString(v.String() + "\n")
					return nil
				})
			if err != nil || out.String() != m[2] {
				t.Errorf("%s\n got %s%v\nwant %s", query, out.String(), err, m[2])
			}
			examples++
		}
	}
	if examples < 5 {
		t.Errorf("found only %d examples", examples)
	}
	var listed []string
	for _, m := range docNames.FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, strings.Fields(m[1])...)
	}
	slices.Sort(listed)
	want := slices.Concat(slices.Collect(maps.Keys(builtins)), slices.Collect(maps.Keys(aggregateKinds)))
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("the page lists %v, there are %v", listed, want)
	}
}
