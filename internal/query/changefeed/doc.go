// SPDX-License-Identifier: Apache-2.0

// Package changefeed reads the change log of a table page by page (RFC 0024). The package serves change feeds over
// HTTP and in CQL.
//
// A feed proceeds in rounds. At the beginning of a round, it reads the horizon of each physical partition in its scope:
// all commits up to the horizon have been applied, and later commits have greater stamps. Then it reads the logs up to
// the horizons in ring order. Later changes belong to the next round. A Token identifies the round and the progress
// within it using only stamps and ring positions.
//
// Guarantees:
//
//   - (CF1) A sequence of tokens returns each change in the scope once. Changes of a logical partition are in
//     commit order. A feed of latest versions omits versions that are overwritten before they are read.
//   - (CF2) A token stays valid across splits, merges, moves and leader changes, and for any part of its scope.
//
// The package does not depend on columns, JSON or CQL. Start reading at Reader.Page.
package changefeed
