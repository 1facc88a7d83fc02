// SPDX-License-Identifier: Apache-2.0

package sim

import "testing"

// transactingHardships selects the faults under which transactions are checked. These faults move leaders and
// partitions.
var transactingHardships = Hardships{Transactions: true, Splits: true, Merges: true, Lost: true, Jumps: true,
	Suspends: true, Refusals: true, Rough: true, LongPauses: true}

// TestTransactionsAreSerializable checks that transactions, blind writes, and reads of a logical partition form one
// sequence while nodes fail and partitions split, merge, and move. Each operation must be atomic, executed once, and
// consistent with the order of calls and responses.
func TestTransactionsAreSerializable(t *testing.T) {
	n, sum, unchecked := eachSeed(t, 8, 3, transactingHardships)
	t.Logf("%d transactions in %d seeds, %d faults, %d partitions created by splits, %d merges, %d keys unchecked",
		sum.Transactions, n, sum.Sum(), sum.Divided, sum.Merged, unchecked)
	if sum.Transactions == 0 || n >= 3 && (sum.Divided == 0 || sum.Merged == 0) {
		t.Error("the simulation no longer tests transactions")
	}
}
