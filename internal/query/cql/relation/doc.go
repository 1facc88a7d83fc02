// SPDX-License-Identifier: Apache-2.0

// Package relation implements the parts of WHERE clauses that all statements share. It binds relations to restrictions
// of columns and evaluates restrictions to values, keys, and clustering intervals.
//
// Guarantees:
//
//   - (RE1) A Restriction is immutable once its Set is complete, and goroutines can evaluate it concurrently.
//   - (RE2) Restrictions on clustering columns evaluate to a union of half-open byte intervals, returned disjoint and
//     in ascending order.
//   - (RE3) No statement results in more than 65,536 combinations of IN values.
//   - (RE4) Errors have Cassandra's texts in all statements.
//
// Packages read and write decide which restrictions a statement supports, in which order errors are checked, and how
// rows are found. Start reading at Bind and Set.Add. value.go and interval.go evaluate restrictions.
package relation
