// SPDX-License-Identifier: Apache-2.0

// Package invariant checks the numbered invariants of packages at runtime. The checks cost time and memory. They are
// compiled only with the build tag invariants, which the tests of simulated clusters set:
//
//	go test -tags invariants ./test/sim/... ./internal/replica/...
package invariant

import "fmt"

// Check panics if Enabled is true and ok is false. The panic message starts with law, which starts with the number of
// the invariant. Put work that is needed only for a check in an if Enabled block.
func Check(ok bool, law string, args ...any) {
	if Enabled && !ok {
		panic("invariant " + fmt.Sprintf(law, args...))
	}
}
