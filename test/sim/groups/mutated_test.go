// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package groups

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/sim/planted"
)

// TestMutationsAreFound proves that mistakes within the product, which cannot be planted around it, are found within
// 200 seeds: the simulator is built with a changed source file. It takes a compilation, so it is for runs with the
// laws.
func TestMutationsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles")
	}
	for _, m := range []struct{ name, file, old, now, law string }{
		{"a lease is kept over a change of members", "../../../internal/replica/raftgroup/apply.go",
			"g.lease.revoke() // it rests on a quorum of the old members", "", "RG2"},
		{"a lease is kept over a transfer of the leadership", "../../../internal/replica/raftgroup/handover.go",
			"g.lease.revoke()\n", "\n", "RG2"},
	} {
		t.Run(m.name, func(t *testing.T) {
			bin := planted.Mutated(t, planted.Edit{File: m.file, Old: m.old, New: m.now})
			for seed := uint64(1); seed <= planted.Within(); seed += 4 {
				out, err := exec.Command(bin, "-test.run=^TestSeeds$", "-sim.seeds=4",
					fmt.Sprint("-sim.seed=", seed)).CombinedOutput()
				if err != nil && strings.Contains(string(out), "invariant "+m.law) {
					t.Logf("found by seed %d or soon after", seed)
					return
				}
			}
			t.Errorf("not found in %d seeds", planted.Within())
		})
	}
}
