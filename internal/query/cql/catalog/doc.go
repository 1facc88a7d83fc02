// SPDX-License-Identifier: Apache-2.0

// Package catalog holds the current schema of a node and the virtual tables: system, system_schema, and others. The
// virtual tables have the columns that drivers and tools of Cassandra 4.0 expect.
//
// Guarantees:
//
//   - (A1) A Snapshot is immutable, and every later snapshot has a higher revision.
//   - (A2) Listeners are notified of every publication once, in order, before Publish returns.
//   - (A3) Reading a virtual table behaves like reading a stored table: partitions by token and key, rows by clustering
//     key, slices, and resumption.
//   - (A4) Every row of a virtual table has the declared columns and types.
//
// The package does not depend on permissions or on the way in which changes are agreed on and stored.
//
// Start reading at Catalog. system.go declares the tables, rows_*.go compute their rows, and reader.go reads them.
package catalog
