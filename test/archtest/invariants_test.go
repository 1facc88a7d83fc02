// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"testing"
)

// invariant matches a numbered invariant in a package comment, such as (RG6).
var invariant = regexp.MustCompile(`\(([A-Z]{1,2})[0-9]{1,2}\)`)

// TestInvariantsAreNumberedOnce checks that no two packages use the same letters for their invariants.
func TestInvariantsAreNumberedOnce(t *testing.T) {
	packages := map[string]string{"I": "ARCHITECTURE.md"}
	eachFile(t, func(path string, source []byte) {
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range invariant.FindAllStringSubmatch(file.Doc.Text(), -1) {
			here := filepath.Dir(path)
			if there, ok := packages[m[1]]; ok && there != here {
				t.Errorf("%s and %s both number their invariants %s", there, here, m[1])
			}
			packages[m[1]] = here
		}
	})
	if len(packages) < 20 {
		t.Errorf("found only %d packages with invariants: check the pattern", len(packages))
	}
}
