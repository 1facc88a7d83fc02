// SPDX-License-Identifier: Apache-2.0

// Package migration copies the schema and rows of a live CQL server, such as Apache Cassandra 4.0 to 5.0, to another
// server. It keeps copying changes until clients stop writing to the source.
//
// A table is divided into token ranges. A pass compares each range on both sides, row by row (package rowdiff), and
// writes the differences. The first pass copies the table, and later passes copy changes. A verification is a pass that
// writes nothing. Only passes write rows.
//
// Guarantees: (IM1) If the checkpoint lists a range as done, the range was read completely on both sides, and the
// target has responded to each difference. A difference was written, rejected and recorded in the error file, or kept
// because it is newer. (IM2) A migration that was killed resumes with the unfinished ranges and compares them again. An
// increment or append is therefore never applied twice. (IM3) A row is deleted only if the table was empty before the
// first pass and the row is not newer than data that an earlier pass can have copied. Concurrent writes of other
// clients are therefore kept. (IM4) Memory is limited to connections and pages, the ranges of all tables, and 100
// differences.
//
// Start reading at Run.
package migration
