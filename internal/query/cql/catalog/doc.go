// SPDX-License-Identifier: Apache-2.0

// Package catalog holds the current schema of a node and the virtual tables of system, system_schema, and other
// keyspaces. The virtual tables have the columns that drivers and tools of Cassandra 4.0 expect.
//
// Guarantees:
//
//   - (A1) A Snapshot is immutable, and every later snapshot has a higher revision.
//   - (A2) Every listener receives each publication once, in order, and before Publish returns.
//   - (A3) A read of a virtual table behaves like a read of a stored table, including the order of partitions and rows,
//     slices, and resumption.
//   - (A4) Every row of a virtual table has the declared columns and types.
//
// The package does not depend on permissions, consensus, or storage.
//
// Start reading at Catalog. system.go declares the tables, rows_*.go compute their rows, and reader.go reads them.
package catalog
