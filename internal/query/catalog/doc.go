// SPDX-License-Identifier: Apache-2.0

// Package catalog is the live schema of a node, and the tables whose rows are computed from it: system, system_schema
// and the virtual tables, with the columns that drivers and tools of Cassandra 4.0 expect.
//
// Guarantees: (A1) a Snapshot is immutable, and every later one has a higher revision; (A2) listeners hear of every
// publication once, in order, before Publish returns; (A3) reading a computed table behaves as reading a stored one:
// partitions by token and key, rows by clustering key, slices, resumption; (A4) every row of a computed table has the
// declared columns and types. It refuses to know how a change is made durable or agreed on, and permissions.
//
// Start at Catalog; system.go declares the tables, rows_*.go fill them, reader.go reads them.
package catalog
