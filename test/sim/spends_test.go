// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// spendingHardships selects the faults under which clients use the whole throughput of a table.
var spendingHardships = Hardships{Throughput: true, Growth: true, StepFaults: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true}

// TestThroughputIsKept checks that no window of time grants more than the provisioned throughput plus the allowance.
// During the test, nodes fail, partitions split and merge, and the throughput changes.
func TestThroughputIsKept(t *testing.T) {
	n, sum, _ := eachSeed(t, 3, 3, spendingHardships)
	t.Logf("%d RU granted, %d requests rejected, %d splits required by the throughput, %d partitions created by splits, "+
		"%d merges", sum.Spent, sum.Throttled, sum.Provided, sum.Divided, sum.Merged)
	if n >= 3 && (sum.Spent == 0 || sum.Throttled == 0 || sum.Provided == 0 || sum.Merged == 0) {
		t.Error("the simulation no longer tests throughput")
	}
}
