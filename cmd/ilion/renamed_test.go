// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestFormerNamesOfCommands checks that a former command name has the same effect as the current name. The command must
// also print a warning that contains the current name.
func TestFormerNamesOfCommands(t *testing.T) {
	for _, r := range renamed {
		var former, present, warning, stderr bytes.Buffer
		if code := run(append(strings.Fields(r.from), "--help"), &former, &warning); code != 0 {
			t.Errorf("%s --help: exit code %d: %s", r.from, code, warning.String())
		}
		if code := run(append(strings.Fields(r.to), "--help"), &present, &stderr); code != 0 {
			t.Errorf("%s --help: exit code %d: %s", r.to, code, stderr.String())
		}
		if former.String() != present.String() || former.Len() == 0 {
			t.Errorf("%s --help prints:\n%s\nwant:\n%s", r.from, former.String(), present.String())
		}
		if !strings.Contains(warning.String(), r.to) || stderr.Len() > 0 {
			t.Errorf("%s: the warnings are %q and %q", r.from, warning.String(), stderr.String())
		}
	}
}
