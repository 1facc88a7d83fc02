// SPDX-License-Identifier: Apache-2.0

// Package ddl executes DESCRIBE and converts data definition statements into schema changes. It passes the changes to a
// Store.
//
// Guarantees:
//
//   - (DD1) The error texts and the order of checks are the same as in Cassandra 4.0. The order is the form of the
//     statement, the permission to change the keyspace, and the schema.
//   - (DD2) Executing the output of DESCRIBE creates an equal object.
//   - (DD3) An unsupported statement has no effect. The error contains the name of the feature.
//
// The package does not depend on consensus or storage.
//
// Start reading at Executor. change.go converts syntax trees into changes. unsupported.go lists unsupported statements.
// describe.go selects the objects of DESCRIBE, and text.go prints them.
package ddl
