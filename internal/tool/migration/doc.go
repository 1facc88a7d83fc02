// SPDX-License-Identifier: Apache-2.0

// Package migration copies the schema and rows of a live CQL server, such as Apache Cassandra 4.0 to 5.0, to another
// server. It keeps copying changes until clients stop writing to the source.
//
// A table is divided into token ranges. A pass compares each range on both sides, row by row (package cells), and
// writes the differences. The first pass copies the table, later passes copy changes, and a pass that only compares
// verifies. Rows are written only by passes.
//
// Guarantees: (IM1) If the checkpoint lists a range as done, the range was read completely on both sides, and the
// target has responded to each difference. A difference was written, rejected and recorded in the error file, or kept
// because it is newer. (IM2) A migration that was killed resumes with the unfinished ranges and compares them again. An
// increment or append is therefore never applied twice. (IM3) A row is deleted only if it is not newer than the data
// that an earlier pass can have copied into a table that was empty before the first pass. Concurrent writes of other
// clients are therefore kept. (IM4) Memory is limited to connections and pages, the ranges of all tables, and 100
// differences.
//
// Start reading at Run.
package migration
