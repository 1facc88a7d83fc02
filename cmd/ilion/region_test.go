// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/regions"
)

// TestPrintRegions checks the table of regions.
func TestPrintRegions(t *testing.T) {
	var out strings.Builder
	printRegions(&out, []regions.Region{{Name: "us", Home: true, Nodes: 3}, {Name: "eu", Number: 1, Nodes: 1}})
	want := "REGION  NUMBER  NODES  REPLICAS\nus      0       3      all tables\neu      1       1      none\n"
	if got := strings.ReplaceAll(out.String(), " \n", "\n"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
