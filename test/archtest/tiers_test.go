// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/build/constraint"
	"slices"
	"strings"
	"testing"
)

// integrationOnly lists packages that start processes. A test that imports one of them must have the build tag
// integration.
var integrationOnly = []string{module + "test/process"}

// tierFault returns the reason why a test file violates the rules for test tiers, or "".
func tierFault(source string) string {
	if strings.Contains(source, "testing.Short"+"()") {
		return "it calls testing.Short. Use the build tag integration"
	}
	tagged := false
	for line := range strings.Lines(source) {
		if !constraint.IsGoBuild(line) {
			continue
		}
		x, err := constraint.Parse(line)
		if err != nil {
			return err.Error()
		}
		tagged = !x.Eval(func(tag string) bool { return tag != "integration" })
	}
	for _, name := range integrationOnly {
		if strings.Contains(source, `"`+name+`"`) && !tagged {
			return "it imports " + name + " without the build tag integration"
		}
	}
	return ""
}

// TestTiers checks that tests that start processes have the build tag integration. No other tag may exclude tests from
// the default tests.
func TestTiers(t *testing.T) {
	eachFile(t, func(path string, source []byte) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		if fault := tierFault(string(source)); fault != "" {
			t.Errorf("%s: %s", path, fault)
		}
	})
}

// TestTierFaults checks that TestTiers can fail.
func TestTierFaults(t *testing.T) {
	var got []bool
	for _, source := range []string{
		"package x",
		"package x\nfunc f() bool { return testing.Short" + "() }",
		"package x\nimport \"" + integrationOnly[0] + "\"",
		"//go:build linux\npackage x\nimport \"" + integrationOnly[0] + "\"",
		"//go:build integration && linux\npackage x\nimport \"" + integrationOnly[0] + "\"",
	} {
		got = append(got, tierFault(source) != "")
	}
	if want := []bool{false, true, true, true, false}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
