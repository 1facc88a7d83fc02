// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"
)

// itemHardships are those in which items are checked: everything that moves leaders and partitions.
var itemHardships = Hardships{Containers: true, Splits: true, Merges: true, Strikes: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true, Rough: true, LongPauses: true}

// TestItemsAreSerializable proves that requests for items of a logical partition - operations, batches, stored
// procedures and queries - are one sequence, each whole and once, in the order of calls and answers, with the statuses
// that they were answered, while nodes fail, partitions are split, merged and moved, and the procedure changes.
func TestItemsAreSerializable(t *testing.T) {
	n, sum, unchecked := eachSeed(t, 6, 2, itemHardships)
	t.Logf("%d requests in %d seeds, %d batches and %d procedures among them, %d procedures threw, %d faults, "+
		"%d partitions came of splits, %d merges, %d keys unchecked", sum.Items, n, sum.ItemBatches, sum.Procedures,
		sum.Thrown, sum.Sum(), sum.Divided, sum.Merged, unchecked)
	if sum.ItemBatches == 0 || sum.Procedures == 0 || sum.Thrown == 0 ||
		n >= 6 && (sum.Divided == 0 || sum.Merged == 0) {
		t.Error("the simulation does not test it any more")
	}
}

// TestItemsSameTrace proves that a seed with items is one history: identifiers and scripts are of it, too.
func TestItemsSameTrace(t *testing.T) {
	p := Plan{Seed: 7, Length: 5 * time.Second, With: itemHardships}
	if one, again := run(t, p), run(t, p); one.Trace != again.Trace || one.Counts.Procedures == 0 {
		t.Fatalf("%v\n%v", one, again)
	}
}
