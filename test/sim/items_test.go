// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"
)

// itemHardships are those in which items are checked: everything that moves leaders and partitions.
var itemHardships = Hardships{Containers: true, Splits: true, Merges: true, Strikes: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true, Rough: true, LongPauses: true}

// TestItemsAreSerializable proves that requests for items of a logical partition - operations, with triggers or
// without, batches, stored procedures, queries, by the index or of all, and the deletion of all - are one sequence,
// each whole and once, in the order of calls and answers, with the statuses that they were answered, while nodes
// fail, partitions are split, merged and moved, and the procedure changes. The change feed has every change once,
// in order, in both modes, whatever node is asked for a page; pages of queries by the index give what is there, and
// in the end what a scan does; and items with a time to live are there as long as they should.
func TestItemsAreSerializable(t *testing.T) {
	n, sum, unchecked := eachSeed(t, 6, 2, itemHardships)
	t.Logf("%d requests in %d seeds, %d batches and %d procedures among them, %d procedures threw, %d faults, "+
		"%d partitions came of splits, %d merges, %d keys unchecked", sum.Items, n, sum.ItemBatches, sum.Procedures,
		sum.Thrown, sum.Sum(), sum.Divided, sum.Merged, unchecked)
	t.Logf("%d operations with triggers, %d refused; %d keys cleared, %d items seen to be gone; %d pages of changes, %d "+
		"of them again, %d readers became two; %d pages by the index with %d items, %d sweeps", sum.Triggered, sum.Repelled,
		sum.Cleared, sum.Expired, sum.ChangePages, sum.Rereads, sum.FeedSplits, sum.Searches, sum.IndexHits,
		sum.ItemSweeps)
	if n >= 6 && (sum.Triggered == 0 || sum.Repelled == 0 || sum.Cleared == 0 || sum.Rereads == 0 ||
		sum.FeedSplits == 0 || sum.IndexHits == 0 || sum.ItemSweeps == 0) {
		t.Error("the simulation does not test triggers, deletions, the change feed or the index any more")
	}
	if sum.ItemBatches == 0 || sum.Procedures == 0 || sum.Thrown == 0 ||
		n >= 6 && (sum.Divided == 0 || sum.Merged == 0) {
		t.Error("the simulation does not test it any more")
	}
}

// TestItemsExpire proves that items with a time to live are there for that long, and no longer, where no clock is
// wrong.
func TestItemsExpire(t *testing.T) {
	n, sum, _ := eachSeed(t, 3, 1, Hardships{Containers: true, Splits: true, Merges: true, Strikes: true, Lost: true,
		Refusals: true, Rough: true})
	t.Logf("%d items seen to be gone in %d seeds", sum.Expired, n)
	if sum.Expired == 0 {
		t.Error("the simulation does not test it any more")
	}
}

// TestItemsSameTrace proves that a seed with items is one history: identifiers and scripts are of it, too.
func TestItemsSameTrace(t *testing.T) {
	p := Scenario{Seed: 7, Length: 5 * time.Second, With: itemHardships}
	if one, again := run(t, p), run(t, p); one.Trace != again.Trace || one.Counts.Procedures == 0 {
		t.Fatalf("%v\n%v", one, again)
	}
}
