// SPDX-License-Identifier: Apache-2.0

// Package relation implements the parts of WHERE clauses that all statements share. It binds relations to restrictions
// of columns and evaluates restrictions to values, keys, and clustering intervals.
//
// Guarantees:
//
//   - (RE1) After its Set is complete, a Restriction is immutable, and several goroutines can evaluate it concurrently.
//   - (RE2) The result of evaluating restrictions on clustering columns is a list of disjoint half-open byte intervals
//     in ascending order.
//   - (RE3) No statement results in more than 65,536 combinations of IN values.
//   - (RE4) For all statements, errors have Cassandra's error texts.
//
// Packages read and write determine the supported restrictions, the order of checks, and the access path. Start reading
// at Bind and Set.Add. value.go and interval.go evaluate restrictions.
package relation
