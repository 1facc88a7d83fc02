// SPDX-License-Identifier: Apache-2.0

// Package read is SELECT: it binds a statement to a table and turns its relations into an access path, then reads,
// filters, groups, aggregates, sorts and pages the rows.
//
// Guarantees: (Q1) a Plan is immutable and may be executed by many goroutines at once; it belongs to one revision of
// its table; (Q2) fetching a result page by page gives the rows of one big page, each once, whoever fetches the pages
// and wherever, as long as nobody writes in between; (Q3) page boundaries are Cassandra's: a page is full at its page
// size, and more is promised until a page comes back short; (Q4) what one execution holds in memory is bounded by
// Options, whatever the table holds; (Q5) errors a client sees carry Cassandra's texts, in the order in which Cassandra
// checks.
//
// The package knows expressions only as terms that can be evaluated (package expr), and storage only as a Reader that
// answers a command.Read. It refuses to know sessions, permissions, topology and the protocol.
//
// Start at Prepare and Plan (plan.go). where.go and token.go are the WHERE clause, of restrictions of package relation;
// keys.go and bounds.go turn it into keys and intervals of clustering keys; selection.go is the SELECT clause;
// execute.go, scan.go and group.go run it.
package read
