// SPDX-License-Identifier: Apache-2.0

// Package random compares answers to random statements with those of a real Apache Cassandra.
//
//	test/perf/cassandra.sh DIR 19142
//	go test ./test/random -against=127.0.0.1:19142 -seed=1 -rounds=50
//	go test ./test/random -against=127.0.0.1:19142 -seed=1 -rounds=50 -nodes=4
//
// Each seed makes a table with random clustering orders and perhaps an index, one of counters, and then rounds of
// writes (with few distinct timestamps, so that there are ties), batches, conditions, lifetimes that end, a look at the
// whole tables, and selects with all kinds of restrictions, in pages. Every answer must be the same: rows, their pages
// and columns, or the code of the error. With -nodes, Ilion's nodes are processes: one that is killed between
// statements, or four of which one at a time is killed while they are under way.
//
//	../shared/cassandra/start.sh DIR 127.0.0.61:9042
//	go test ./test/random -run Types -against=127.0.0.61:9042 -seed=1 -rounds=40
//
// TestTypesAgainstCassandra has each round make a table of random types, and asks with expressions, functions and
// conditions of all kinds, as in Cassandra 5.0; it goes on after a difference in an answer, and lists them. Some are
// Cassandra's own (docs/compatibility.md). Without -against there is nothing to
// compare with, and the test is skipped.
//
//	go test ./test/random -run TablesAgainst -against=127.0.0.61:9042 -seed=1 -rounds=40
//
// TestTablesAgainstCassandra has each round make a table with clustering and static columns, collections and user
// types of few values, with indexes of both kinds and a view, and asks for it in all ways after writes of all kinds.
// Some select functions of the user and masks. Warnings and the texts of errors are compared, too, and a view is waited
// for. Seed 101 found what refused batches show, and deletions that batches with conditions outlast: both are kept as
// statements in test/cql/testdata/lwt.txt. TestCompactTablesAgainstCassandra does the same for
// tables with COMPACT STORAGE. TestTablesWithoutCassandra runs kept seeds without a Cassandra if -alone is given.
package random
