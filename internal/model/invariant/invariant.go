// SPDX-License-Identifier: Apache-2.0

// Package invariant checks the numbered invariants of packages at run time. The checks cost time and memory. They are
// compiled only with the build tag invariants, which the tests of simulated clusters set:
//
//	go test -tags invariants ./test/sim/... ./internal/replica/...
package invariant

import "fmt"

// Check panics if Enabled is true and ok is false. The message starts with law, which begins with the invariant's
// number. Work that is needed only for a check belongs in an if Enabled block.
func Check(ok bool, law string, args ...any) {
	if Enabled && !ok {
		panic("invariant " + fmt.Sprintf(law, args...))
	}
}
