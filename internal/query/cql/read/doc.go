// SPDX-License-Identifier: Apache-2.0

// Package read executes SELECT. The package binds a statement to a table and converts its relations into an access
// path. It then reads, filters, groups, aggregates, sorts, and pages the rows.
//
// Guarantees:
//
//   - (Q1) A Plan is immutable and may be executed by many goroutines at the same time. Each plan belongs to one table
//     revision.
//   - (Q2) All pages of a result together contain each row exactly once. This also applies if different nodes serve the
//     pages, but not if rows are written between the pages.
//   - (Q3) Page boundaries are the same as in Cassandra. A page is full when it contains the page size's number of
//     rows. A full page is always followed by another page.
//   - (Q4) Options limits the memory of an execution, regardless of the size of the table.
//   - (Q5) The error messages and the order of the checks are the same as in Cassandra.
//
// The package uses expressions only through package expr and storage only through Reader. It does not depend on
// sessions, permissions, topology, or the protocol.
//
// Start reading at Prepare and Plan (plan.go). where.go and token.go bind the WHERE clause as restrictions of package
// relation. keys.go and bounds.go convert the restrictions into keys and clustering intervals. selection.go binds the
// SELECT clause. execute.go executes a plan. request.go builds the commands. scan.go passes the returned rows through
// the operators (filter.go, group.go, sort.go, ann.go, and emit.go).
package read
