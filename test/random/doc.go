// SPDX-License-Identifier: Apache-2.0

// Package random compares answers to random statements with those of a real Apache Cassandra.
//
//	test/perf/cassandra.sh DIR 19142
//	go test ./test/random -against=127.0.0.1:19142 -seed=1 -rounds=50
//
// Each seed makes a table with random clustering orders, and then rounds of writes (with few distinct timestamps, so
// that there are ties), conditions, a look at the whole table, and selects with all kinds of restrictions, in pages.
// Every answer must be the same: rows, their pages and columns, or the code of the error. Without -against there is
// nothing to compare with, and the test is skipped.
package random
