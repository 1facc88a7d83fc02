// SPDX-License-Identifier: Apache-2.0

// Package ddl executes DESCRIBE and converts data definition statements into schema changes, which it passes to a
// Store.
//
// Guarantees:
//
//   - (DD1) Errors have Cassandra 4.0's texts and are checked in Cassandra's order: the form of the statement, whether
//     the keyspace may be changed, then the schema.
//   - (DD2) The output of DESCRIBE creates an equal object when it is executed.
//   - (DD3) An unsupported statement is rejected with an error that names the feature. It has no effect.
//
// The package does not depend on permissions or on the way in which changes are agreed on and stored.
//
// Start reading at Executor. change.go converts syntax trees into changes. unsupported.go lists unsupported statements.
// describe.go selects the objects of DESCRIBE, and text.go prints them.
package ddl
