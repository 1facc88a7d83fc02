// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// viewHardships selects the faults under which views are checked. These faults move leaders and partitions.
var viewHardships = Hardships{Views: true, Splits: true, Merges: true, StepFaults: true, Lost: true, Suspends: true,
	Refusals: true, Rough: true, LongPauses: true}

// TestViewsAgree checks that materialized views match their base when all writes have ended, and at every later time.
// Statements may have unknown outcomes. During the writes, nodes fail, leaders change, and a view is built. Partitions
// of the base and the views split, merge, and move.
func TestViewsAgree(t *testing.T) {
	n, sum, _ := eachSeed(t, 8, 2, viewHardships)
	t.Logf("%d statements on the base table in %d seeds, %d view rows, %d faults, %d partitions created by splits, %d merges, "+
		"%d views built", sum.BaseWrites, n, sum.ViewRows, sum.Sum(), sum.Divided, sum.Merged, sum.Built)
	if sum.BaseWrites == 0 || sum.ViewRows == 0 || n >= 8 && (sum.Divided == 0 || sum.Merged == 0 || sum.Built == 0) {
		t.Error("the simulation no longer tests views")
	}
}
