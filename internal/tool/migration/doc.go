// SPDX-License-Identifier: Apache-2.0

// Package migration copies the schema and rows of a live CQL server to another server. An example of such a server is
// Apache Cassandra 4.0 to 5.0. It keeps copying changes until clients stop writing to the source.
//
// A table is divided into token ranges. A pass compares each range on both sides, row by row (package rowdiff). It
// then writes the differences. The first pass copies the table. Later passes copy changes. A verification is a pass
// that writes nothing. Only passes write rows.
//
// Guarantees: (IM1) If the checkpoint lists a range as done, the range was read completely on both sides. The target
// has responded to each difference. The difference was written, was rejected and recorded in the error file, or was
// kept because it is newer. (IM2) A migration that was killed resumes with the unfinished ranges and compares these
// ranges again. Therefore, an increment or append is never applied twice. (IM3) A row is deleted only if the table was
// empty before the first pass. In addition, the row must not be newer than the data that an earlier pass can have
// copied. Therefore, concurrent writes of other clients are kept. (IM4) The memory use is limited to connections and
// pages, the ranges of all tables, and 100 differences.
//
// Start reading at Run.
package migration
