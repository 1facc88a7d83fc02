// SPDX-License-Identifier: Apache-2.0

// Package fulltext analyzes texts, finds keywords in them, and computes their relevance.
//
// Guarantees:
//
//   - (FT1) The terms of a text depend only on the text and its language. Index entries contain terms, so a change of the
//     analysis requires that the indexes are rebuilt.
//   - (FT2) A term has at most TermBytesMax bytes, so the work for two terms is bounded.
package fulltext
