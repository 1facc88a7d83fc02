// SPDX-License-Identifier: Apache-2.0

// Package write executes INSERT, UPDATE, DELETE, and BATCH. It binds statements to plans and converts plans and values
// into mutations. It sends mutations and conditional writes to a coordinator.
//
// Guarantees:
//
//   - (WR1) A Plan is immutable and may be executed by many goroutines at the same time. Each plan belongs to one table
//     revision.
//   - (WR2) A write never reads. Conditions, counter updates, and list indexes depend on the stored row. They are sent
//     as a command.Conditional, which the leader resolves.
//   - (WR3) If a mutation writes a value to an indexed column, the mutation also contains the index entry.
//   - (WR4) After warm-up, executing a prepared statement with single values and a complete key does not allocate
//     memory.
//
// The package does not depend on the transport of commands, the storage of rows, or the protocol. An outcome is empty
// or consists of encoded cells. Start reading at Prepare and Executor.Execute. Special cases are in batch.go,
// condition.go, and json.go.
package write
