// SPDX-License-Identifier: Apache-2.0

package completion_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/tool/shell/completion"
)

var schema = completion.Schema{
	"shop": {
		Tables: map[string][]string{"orders": {"id", "placed", "total", "Note"}, "Order Lines": {"id"}},
		Types:  []string{"address"}, Functions: []string{"taxed"},
	},
	"system": {Tables: map[string][]string{"local": {"key", "cluster_name"}, "peers": {"peer"}}},
}

// TestComplete checks the completions in testdata/complete.txt. In this file, ^ is the cursor. The keyspace shop is in
// use.
func TestComplete(t *testing.T) {
	datadriven.RunTest(t, "testdata/complete.txt", func(t *testing.T, d *datadriven.TestData) string {
		before, after, _ := strings.Cut(d.Input, "^")
		start, words := completion.Complete(completion.Input{Before: before, After: after, Keyspace: "shop",
			Schema: schema, Commands: []string{"HELP", "SOURCE", "SHOW"}})
		return before[:start] + "[" + strings.Join(words, " ") + "]\n"
	})
}

// FuzzComplete checks that completion succeeds for any input, and that the text that it replaces starts at or before
// the cursor.
func FuzzComplete(f *testing.F) {
	f.Add("SELECT ", " FROM t")
	f.Add(".", ".")
	f.Add("EXPLAIN a.\"", "")
	f.Add("DROP TABLE IF EXISTS ", "")
	f.Fuzz(func(t *testing.T, before, after string) {
		start, _ := completion.Complete(completion.Input{Before: before, After: after, Schema: schema})
		if start < 0 || start > len(before) {
			t.Fatalf("start %d of %d", start, len(before))
		}
	})
}
