// SPDX-License-Identifier: Apache-2.0

// Package transaction binds and executes BEGIN TRANSACTION .. COMMIT TRANSACTION. A transaction reads one logical
// partition, checks conditions on the values, and applies its changes atomically.
//
// A transaction is bound twice. The client's node binds the transaction to determine the logical partition and the
// result columns. Then it sends the text and the bound values to the leader of the partition. The leader binds the
// transaction again and executes it as the program of a partition.Txn.
//
// Guarantees:
//
//   - (TX1) All statements of a transaction access one logical partition. Otherwise, the transaction is not sent.
//   - (TX2) If both nodes have not bound the transaction to the same table revision, no statement is executed.
//   - (TX3) All statements use the state before the transaction.
//
// Package partition provides isolation, exactly-once execution, and limits. Start reading at Prepare. Executor runs on
// the client's node, and Programs runs on the leader.
package transaction
