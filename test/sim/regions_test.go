// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// regionHardships are the faults under which a cluster of two regions is checked.
var regionHardships = Hardships{Regions: true, Batches: true, Splits: true, Merges: true, Growth: true,
	StepFaults: true, Lost: true, Suspends: true, Refusals: true,
	Rough: true, LongPauses: true, Jumps: true, Mixed: true}

// TestRegions checks that the histories of clients of two regions are linearizable. One node is in a distant region,
// holds no rows, and sends its clients' requests to the nodes of the home region.
func TestRegions(t *testing.T) {
	n, sum, _ := eachSeed(t, 32, 3, regionHardships)
	t.Logf("%d operations in %d seeds, %d faults, %d partitions created by splits, %d merges", sum.Acked, n, sum.Sum(),
		sum.Divided, sum.Merged)
	if sum.Acked == 0 || sum.Sum() == 0 {
		t.Error("the simulation no longer tests regions")
	}
}
