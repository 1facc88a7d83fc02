// SPDX-License-Identifier: Apache-2.0

// Package container implements databases, containers, and items on top of the CQL data model.
//
// A database is a keyspace, a container is a table with partition key paths (schema.Container), and an item is a row
// with a JSON body. Protocol packages such as server/rest call an Engine and translate its results. CQL statements see
// a container as a read-only table.
//
// Guarantees:
//
//   - (CO1) The operations of one request on a logical partition form one transaction: either all of them take effect,
//     or none of them does.
//   - (CO2) The body of an item is stored byte for byte.
//   - (CO3) The leader of the partition checks etag conditions and the uniqueness of IDs and unique keys under its
//     latch.
//   - (CO4) A continuation stays valid across splits, merges, and moves.
//   - (CO5) Every response, including an error, contains its request charge.
//
// The package uses HTTP status codes, but is otherwise independent of HTTP. Start reading at Engine, then Engine.Do,
// then Program. An Engine consists of a directory (resource.go), which finds databases and containers, and a definer
// (change.go), which changes them. The methods of Engine itself read and write items.
package container
