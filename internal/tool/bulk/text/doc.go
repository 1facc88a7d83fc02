// SPDX-License-Identifier: Apache-2.0

// Package text is rows as text: values of every CQL type as fields of CSV and as members of JSON objects, and the
// records of a file, both ways.
//
// Guarantees: (T1) what Append writes, Parse reads back as an equal value, whatever the type; (T2) a field in quotes is
// never null, so that null and the empty text are told apart; (T3) no input makes a reader panic or hold more than one
// record and one block. The package knows nothing of tables or servers. Start at Append and Parse, then Dialect.
package text
