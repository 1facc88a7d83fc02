// SPDX-License-Identifier: Apache-2.0

// Package ddl turns data definition statements into schema changes and hands them to whoever applies them, and answers
// DESCRIBE.
//
// Guarantees: (DD1) errors carry Cassandra 4.0's texts, in the order in which it checks: the form of the statement,
// then whether the keyspace may be changed at all, then the schema; (DD2) what DESCRIBE prints creates an equal object
// again; (DD3) a statement that this version does not support is refused by name, never half done. It refuses to know
// how a change is agreed on and stored, and whether the client may make it.
//
// Start at Executor; change.go turns syntax trees into changes, refuse.go lists what is not supported, describe.go
// selects what DESCRIBE shows and text.go prints it.
package ddl
