// SPDX-License-Identifier: Apache-2.0

// Package write executes INSERT, UPDATE, DELETE, and BATCH. It binds statements to plans and converts plans with values
// into mutations. Mutations and conditional writes are sent to a coordinator.
//
// Guarantees:
//
//   - (WR1) A Plan is immutable and may be executed by many goroutines at the same time. It belongs to one revision of
//     a table.
//   - (WR2) A write never reads. Parts that depend on the stored row (conditions, counters, list indexes) are sent as a
//     command.Conditional and resolved by the leader.
//   - (WR3) For every value written to an indexed column, the mutation contains the index entry.
//   - (WR4) Executing a prepared statement with single values and a complete key allocates no memory after warm-up.
//
// The package does not depend on the transport of commands, the storage of rows, or the protocol. An outcome is void or
// a set of encoded cells. Start reading at Prepare and Executor.Execute. The special cases are in batch.go,
// condition.go, and json.go.
package write
