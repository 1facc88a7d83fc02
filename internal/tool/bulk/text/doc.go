// SPDX-License-Identifier: Apache-2.0

// Package text converts rows to text and back. It converts values of all CQL types to CSV fields and to members of
// JSON objects, and splits a file into records.
//
// Guarantees: (T1) Parse converts the output of Append to an equal value, for all types. (T2) A quoted field is never
// null, so that null and the empty text are distinct. (T3) For any input, a reader does not panic and holds no more
// than one record and one block. The package does not access tables or servers. Start reading at Append and Parse,
// then Dialect.
package text
