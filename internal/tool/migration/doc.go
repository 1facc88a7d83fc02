// SPDX-License-Identifier: Apache-2.0

// Package migration copies schema and rows of a live CQL server, such as Apache Cassandra 4.0 to 5.0, into another one,
// and follows what changes there until nobody writes to it any more.
//
// A table is cut into ranges of tokens. A pass compares each of them on both sides, row by row (package cells), and
// writes what differs: the first pass copies, the next ones follow, one that only looks verifies. There is no other way
// in which a row is written.
//
// Guarantees: (IM1) a range that the checkpoint calls done was read to its end on both sides, and each difference was
// answered by the target: written, refused into the error file, or kept because it is newer; (IM2) what was killed and
// is run again goes on with the ranges that are not done, and compares them again, so that nothing is counted or
// appended twice; (IM3) a row is deleted only if it is not newer than what an earlier pass can have copied into a table
// that was empty when the first one began, so that what others write meanwhile stays; (IM4) memory is bounded: by the
// connections and pages, the ranges of all tables, and 100 differences.
//
// Start at Run.
package migration
