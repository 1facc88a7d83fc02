// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// feedHardships are those in which the feeds of tables are checked: everything that moves leaders and partitions.
var feedHardships = Hardships{Feeds: true, Splits: true, Merges: true, Strikes: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true, Rough: true, LongPauses: true}

// TestFeedsAreTheTables proves that the feed of a CQL table with cdc = true is the table, while nodes fail and
// partitions are split, merged and moved: statements of every kind, which delete cells, rows, ranges, keys and static
// columns, have conditions, timestamps and times to live, come in batches and add to counters, come out of the feed of
// all changes complete, in the order of their commits and once for each sequence of paging states, with the images
// before and after them, to readers of everything, of a key and of ranges of tokens, that forget what they have read
// since their last checkpoint now and then and ask another node each time. So do the latest versions.
func TestFeedsAreTheTables(t *testing.T) {
	n, sum, _ := eachSeed(t, 8, 2, feedHardships)
	t.Logf("%d statements in %d seeds, %d pages of their feeds, %d of them again, %d readers became two, %d sweeps, %d "+
		"faults, %d partitions came of splits, %d merges", sum.FeedWrites, n, sum.FeedPages, sum.FeedRereads,
		sum.FeedDivisions, sum.FeedSweeps, sum.Sum(), sum.Divided, sum.Merged)
	if sum.FeedWrites == 0 || n >= 6 && (sum.FeedRereads == 0 || sum.FeedDivisions == 0 || sum.FeedSweeps == 0 ||
		sum.Divided == 0 || sum.Merged == 0) {
		t.Error("the simulation does not test it any more")
	}
}
