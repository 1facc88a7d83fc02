// SPDX-License-Identifier: Apache-2.0

// Package transaction binds and executes BEGIN TRANSACTION .. COMMIT TRANSACTION: reads of one logical partition,
// conditions on what was read, and changes, all or nothing.
//
// A transaction is bound twice: on the node of its client, which finds out which logical partition it is of, and what
// its result looks like, and on the node that leads that partition, where it is carried out as the program of a
// partition.Txn. What travels is its text and the values of its markers.
//
// Guarantees: (TX1) all statements of a transaction are of one logical partition, or nothing is sent; (TX2) both nodes
// have bound the statement to the same revision of the table, or nothing is done; (TX3) all statements see the state
// before the transaction. Isolation, exactly-once and bounds are those of package partition.
//
// Start at Prepare, then Executor (the client's node) and Programs (the leader's).
package transaction
