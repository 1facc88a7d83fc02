// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"os"
	"regexp"
	"testing"
)

// TestCompatibilityPage checks that docs/compatibility-cosmos.md has exactly one row for each operation of the router.
// The row must state whether the operation is supported.
func TestCompatibilityPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/compatibility-cosmos.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \| (works|differs|absent) \|`).FindAllSubmatch(page, -1) {
		rows[string(row[1])] = true
	}
	operations := New(newFake(), noScripts{}, Options{}).routes
	for i := range operations {
		if name := operations[i].name; !rows[name] {
			t.Errorf("%q has no row", name)
		}
	}
	known := map[string]bool{}
	for i := range operations {
		known[operations[i].name] = true
	}
	for name := range rows {
		if !known[name] {
			t.Errorf("%q is not an operation", name)
		}
	}
}
