// SPDX-License-Identifier: Apache-2.0

// Package read executes SELECT. The package binds a statement to a table and converts its relations into an access
// path. It then reads, filters, groups, aggregates, sorts, and pages the rows.
//
// Guarantees:
//
//   - (Q1) A Plan is immutable and may be executed by many goroutines at the same time. It belongs to one revision of
//     its table.
//   - (Q2) The pages of a result together contain the rows of one large page, each exactly once. This applies on every
//     node, unless rows are written between the pages.
//   - (Q3) Page boundaries are Cassandra's: a page is full at its page size, and a further page is announced until a
//     page is not full.
//   - (Q4) Options limits the memory of an execution, regardless of the size of the table.
//   - (Q5) Errors have Cassandra's texts and are checked in Cassandra's order.
//
// The package uses expressions only through package expr and storage only through Reader. It does not depend on
// sessions, permissions, topology, or the protocol.
//
// Start reading at Prepare and Plan (plan.go). where.go and token.go bind the WHERE clause as restrictions of package
// relation. keys.go and bounds.go convert them into keys and clustering intervals. selection.go binds the SELECT
// clause. execute.go executes a plan: request.go builds its commands, and scan.go passes the rows that they return
// through the operators (filter.go, group.go, sort.go, ann.go, and emit.go).
package read
