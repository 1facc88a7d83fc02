// SPDX-License-Identifier: Apache-2.0

// Package random compares the results of random statements with the results of a real Apache Cassandra.
//
//	test/perf/cassandra.sh DIR 19142
//	go test -tags integration ./test/random -against=127.0.0.1:19142 -seed=1 -rounds=50
//	go test -tags integration ./test/random -against=127.0.0.1:19142 -seed=1 -rounds=50 -nodes=4
//
// Each seed creates a table with random clustering orders and perhaps an index, and a table of counters. The writes of
// each round have few distinct timestamps, so timestamps are often equal. Each round also makes batches, conditional
// writes, and writes that expire. It then reads the whole tables and runs selects with all kinds of restrictions in
// pages. The rows, pages, and columns of each result, or its error code, must be the same. With -nodes, Ilion's nodes
// are processes. A single node is killed between statements. In a cluster of four nodes, one node at a time is killed
// during statements.
//
//	../shared/cassandra/start.sh DIR 127.0.0.61:9042
//	go test -tags integration ./test/random -run Types -against=127.0.0.61:9042 -seed=1 -rounds=40
//
// TestTypesAgainstCassandra creates a table of random types in each round. It uses expressions, functions, and
// conditions of all kinds, as in Cassandra 5.0. It continues after a difference in a result, and lists the
// differences. Some of the differences are faults of Cassandra (docs/compatibility.md). The test is skipped without
// -against.
//
//	go test -tags integration ./test/random -run TablesAgainst -against=127.0.0.61:9042 -seed=1 -rounds=40
//
// TestTablesAgainstCassandra creates a table in each round with clustering and static columns, collections, user
// types, indexes of both kinds, and a view. Columns have few distinct values. After writes of all kinds, it reads the
// table in all ways. Some selects use user-defined functions and masks. The test also compares warnings and error
// texts, and waits for views. Seed 101 found differences in rejected batches and in deletions before conditional
// batches. The file test/cql/testdata/lwt.txt contains both cases. TestCompactTablesAgainstCassandra does the same for
// tables with COMPACT STORAGE. With the flag -alone, TestTablesWithoutCassandra runs stored seeds without a Cassandra
// server.
package random
