// SPDX-License-Identifier: Apache-2.0

package invariant

import "testing"

// TestCheck checks that a violated invariant panics with its number if checks are compiled in.
func TestCheck(t *testing.T) {
	defer func() {
		got := recover()
		if Enabled && got != "invariant X1: 2 is not 3" || !Enabled && got != nil {
			t.Errorf("%v", got)
		}
	}()
	Check(true, "X0")
	Check(false, "X1: %d is not %d", 2, 3)
}
