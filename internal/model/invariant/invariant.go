// SPDX-License-Identifier: Apache-2.0

// Package invariant checks at run time what the doc comments of packages state under a number. The checks cost time and
// memory, so they are compiled in with the build tag invariants only, which the tests of simulated clusters set:
//
//	go test -tags invariants ./test/sim/... ./internal/replica/...
package invariant

import "fmt"

// Check panics with the law, its number first, if Enabled and ok is false. Work that only a check needs stands under if
// Enabled.
func Check(ok bool, law string, args ...any) {
	if Enabled && !ok {
		panic("invariant " + fmt.Sprintf(law, args...))
	}
}
