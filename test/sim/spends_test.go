// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// spendingHardships are those in which a table with a throughput is asked for all that it gives.
var spendingHardships = Hardships{Throughput: true, Growth: true, Strikes: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true}

// TestThroughputIsKept proves that no window of time gives more than a throughput provides and what is allowed beyond,
// while nodes fail, partitions are split and merged by it, and it is changed itself.
func TestThroughputIsKept(t *testing.T) {
	n, sum, _ := eachSeed(t, 3, 3, spendingHardships)
	t.Logf("%d RU given, %d requests refused, %d splits asked for by the throughput, %d partitions came of splits, "+
		"%d merges", sum.Spent, sum.Throttled, sum.Provided, sum.Divided, sum.Merged)
	if n >= 3 && (sum.Spent == 0 || sum.Throttled == 0 || sum.Provided == 0 || sum.Merged == 0) {
		t.Error("the simulation does not test it any more")
	}
}
