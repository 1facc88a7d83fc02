// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// feedHardships selects the faults under which table feeds are checked. These faults move leaders and partitions.
var feedHardships = Hardships{Feeds: true, Splits: true, Merges: true, StepFaults: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true, Rough: true, LongPauses: true}

// TestFeedsAreTheTables checks that the feed of a CQL table with cdc = true reproduces the table while nodes fail and
// partitions split, merge, and move.
//
// The statements delete cells, rows, ranges, keys, and static columns. Statements may have conditions, timestamps, or
// times to live. They may add to counters or belong to batches. The feed of all changes must contain each change in
// commit order, once per sequence of paging states, with the images before and after it. Readers follow the whole
// table, one key, or a token range. They sometimes return to their last checkpoint, and they request each page from
// another node. The feed of latest versions must also match.
func TestFeedsAreTheTables(t *testing.T) {
	n, sum, _ := eachSeed(t, 8, 2, feedHardships)
	t.Logf("%d statements in %d seeds, %d pages of their feeds, %d of them repeated, %d readers divided, %d sweeps, %d "+
		"faults, %d partitions created by splits, %d merges", sum.FeedWrites, n, sum.FeedPages, sum.FeedRereads,
		sum.FeedDivisions, sum.FeedSweeps, sum.Sum(), sum.Divided, sum.Merged)
	if sum.FeedWrites == 0 || n >= 6 && (sum.FeedRereads == 0 || sum.FeedDivisions == 0 || sum.FeedSweeps == 0 ||
		sum.Divided == 0 || sum.Merged == 0) {
		t.Error("the simulation no longer tests feeds")
	}
}
