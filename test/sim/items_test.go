// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"
)

// itemHardships selects the faults under which items are checked. These faults move leaders and partitions.
var itemHardships = Hardships{Containers: true, Splits: true, Merges: true, StepFaults: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true, Rough: true, LongPauses: true}

// TestItemsAreSerializable checks that the item requests of a logical partition form one sequence while nodes fail,
// partitions split, merge, and move, and the procedure changes. Each request must be atomic and executed once. Each
// request must be consistent with the order of calls and responses and with the response statuses. The requests are
// operations with or without triggers, batches, stored procedures, queries with and without the index, and deletions
// of all items.
//
// The change feed must contain every change once and in order in both modes, regardless of the node that serves a
// page. Pages of index queries must contain the existing items and finally equal a scan. Items with a time to live
// must exist until they expire.
func TestItemsAreSerializable(t *testing.T) {
	n, sum, unchecked := eachSeed(t, 6, 2, itemHardships)
	t.Logf("%d requests in %d seeds, %d batches and %d procedures among them, %d procedures threw, %d faults, "+
		"%d partitions created by splits, %d merges, %d keys unchecked", sum.Items, n, sum.ItemBatches, sum.Procedures,
		sum.Thrown, sum.Sum(), sum.Divided, sum.Merged, unchecked)
	t.Logf("%d operations with triggers, %d rejected; %d keys cleared, %d expired items; %d pages of changes, %d "+
		"of them repeated, %d readers divided; %d index pages with %d items, %d sweeps", sum.Triggered, sum.Repelled,
		sum.Cleared, sum.Expired, sum.ChangePages, sum.Rereads, sum.FeedSplits, sum.Searches, sum.IndexHits,
		sum.ItemSweeps)
	if n >= 6 && (sum.Triggered == 0 || sum.Repelled == 0 || sum.Cleared == 0 || sum.Rereads == 0 ||
		sum.FeedSplits == 0 || sum.IndexHits == 0 || sum.ItemSweeps == 0) {
		t.Error("the simulation no longer tests triggers, deletions, the change feed, or the index")
	}
	if sum.ItemBatches == 0 || sum.Procedures == 0 || sum.Thrown == 0 ||
		n >= 6 && (sum.Divided == 0 || sum.Merged == 0) {
		t.Error("the simulation no longer tests items")
	}
}

// TestItemsExpire checks that items exist exactly for their time to live if no clock is wrong.
func TestItemsExpire(t *testing.T) {
	n, sum, _ := eachSeed(t, 3, 1, Hardships{Containers: true, Splits: true, Merges: true, StepFaults: true, Lost: true,
		Refusals: true, Rough: true})
	t.Logf("%d expired items in %d seeds", sum.Expired, n)
	if sum.Expired == 0 {
		t.Error("the simulation no longer tests items")
	}
}

// TestItemsSameTrace checks that a seed with items always produces the same history, including identifiers and
// scripts.
func TestItemsSameTrace(t *testing.T) {
	p := Scenario{Seed: 7, Length: 5 * time.Second, With: itemHardships}
	if one, again := run(t, p), run(t, p); one.Trace != again.Trace || one.Counts.Procedures == 0 {
		t.Fatalf("%v\n%v", one, again)
	}
}
