// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package groups

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/sim/planted"
)

// TestMutationsAreFound checks that the simulator finds mutations of the product's source code within 200 seeds. The
// test compiles the simulator once with all mutations, so it runs only in builds with invariant checks.
func TestMutationsAreFound(t *testing.T) {
	bin := planted.Build(t, edits()...)
	for _, m := range []struct{ name, mistake, invariant string }{
		{"a lease is kept over a change of members", "members", "RG2"},
		{"a lease is kept over a transfer of the leadership", "transfer", "RG2"},
	} {
		t.Run(m.name, func(t *testing.T) {
			for seed := uint64(1); seed <= planted.Within(); seed += 4 {
				out, failed := bin.Seeds(m.mistake, seed, 4)
				if failed && strings.Contains(out, "invariant "+m.invariant) {
					t.Logf("found by seed %d or one of the next seeds", seed)
					return
				}
			}
			t.Errorf("not found in %d seeds", planted.Within())
		})
	}
	if out, failed := bin.Seeds("", 1, 4); failed {
		t.Errorf("without a mutation: %s", out)
	}
}
