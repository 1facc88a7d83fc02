// SPDX-License-Identifier: Apache-2.0

// Package container is databases, containers and items over what the house has: a database is a keyspace, a
// container a table that knows its partition key paths (schema.Container), an item a row whose body is JSON, exactly
// as it was sent. Surfaces such as server/rest call an Engine and translate; statements of CQL see a container as a
// table to read.
//
// Guarantees: (CO1) the operations of one request on items of a logical partition are one transaction: all of them
// are done, or nothing is; (CO2) the body of an item is kept byte for byte; (CO3) a condition on an etag, the
// uniqueness of an id and of unique keys are decided by the leader of the partition, under its latch; (CO4) a
// continuation stays valid over splits, merges and moves; (CO5) every answer says what it has cost, errors as well.
//
// It knows nothing of HTTP but the numbers of its statuses. Start at Engine, then Engine.Do, then Program.
package container
