// SPDX-License-Identifier: Apache-2.0

// Package transaction binds and executes BEGIN TRANSACTION .. COMMIT TRANSACTION. A transaction reads one logical
// partition, checks conditions on the values that it has read, and applies its changes atomically.
//
// A transaction is bound twice. The client's node binds it to determine its logical partition and the columns of its
// result. The leader of the partition binds it again and executes it as the program of a partition.Txn. The text and
// the bound values are sent to the leader.
//
// Guarantees:
//
//   - (TX1) All statements of a transaction access one logical partition. Otherwise, the transaction is not sent.
//   - (TX2) Both nodes have bound the statement to the same revision of the table. Otherwise, no statement is executed.
//   - (TX3) All statements see the state before the transaction.
//
// Isolation, exactly-once execution, and limits are provided by package partition. Start reading at Prepare, then at
// Executor (the client's node) and Programs (the leader).
package transaction
