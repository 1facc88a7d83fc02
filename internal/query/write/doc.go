// SPDX-License-Identifier: Apache-2.0

// Package write is what INSERT, UPDATE, DELETE and BATCH mean: statements are bound to plans, plans and values become
// mutations, and mutations and conditions are sent to a coordinator.
//
// Guarantees: (WR1) a Plan is immutable and may be executed by many goroutines at once; it belongs to one revision of a
// table; (WR2) a write never reads: what depends on the stored row (conditions, counters, list places) travels as a
// command.Conditional and is decided by the leader; (WR3) every value of an indexed column that is written is entered
// into the index beside the row, in the same mutation; (WR4) executing a prepared statement of single values whose key
// is given allocates nothing once warm.
//
// It refuses to know how commands travel, how rows are stored, and the protocol: an outcome is void or a set of encoded
// cells. Start at Prepare and Executor.Execute; batch.go, condition.go and json.go are the special cases.
package write
