// SPDX-License-Identifier: Apache-2.0

// Package changefeed reads the change log of a table page by page (RFC 0024). The package serves change feeds for HTTP
// and CQL.
//
// A feed proceeds in rounds. At the beginning of a round, it reads the horizon of each physical partition in its scope.
// All commits up to the horizon have been applied, and later commits have higher stamps. Then the feed reads the logs
// up to the horizons in ring order. Later changes belong to the next round. A Token identifies the round and the
// progress of the round only by stamps and ring positions.
//
// Guarantees:
//
//   - (CF1) A feed returns each change in the scope once. The changes of a logical partition are in commit order. A
//     feed of latest versions omits versions that are overwritten before the feed reads them.
//   - (CF2) A token remains valid after splits, merges, moves, and leader changes. It is also valid for any part of its
//     scope.
//
// The package does not depend on columns, JSON, or CQL. Start reading at Reader.Page.
package changefeed
