// SPDX-License-Identifier: Apache-2.0

// Package schemadiff copies the schema of a CQL server to another server. It first copies keyspaces, types, functions,
// aggregates, and tables. After the rows, it also copies indexes and views.
//
// Guarantees: (OL1) An existing object that is equal is used. An existing object that differs is an error that
// describes the difference. No existing object is changed. (OL2) All objects that the target rejects are known, with
// the reasons, before the first row is copied. For this purpose, indexes and views are created on empty tables and
// dropped until the rows have been copied. The package does not handle rows. Start reading at Read and Plan.
package schemadiff
