// SPDX-License-Identifier: Apache-2.0

// Package relation is what the WHERE clauses of all statements share: relations are bound to restrictions of columns,
// and restrictions are evaluated to values, keys and intervals of clustering keys.
//
// Guarantees: (RE1) a Restriction is immutable once its Set is complete and may be evaluated by many goroutines at
// once; (RE2) whatever restrictions say of clustering columns is a union of half-open intervals of bytes, returned
// disjoint and ascending; (RE3) no statement amounts to more than 65,536 combinations of IN values; (RE4) refusals
// carry Cassandra's texts, whatever the statement.
//
// It refuses to know which restrictions a statement may have, in what order it complains, and how rows are found: that
// is of packages read and write. Start at Bind and Set.Add; value.go and interval.go evaluate.
package relation
