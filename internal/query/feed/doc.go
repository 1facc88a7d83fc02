// SPDX-License-Identifier: Apache-2.0

// Package feed reads the change log of a table (RFC 0024) page by page: whatever asks for changes, over HTTP or in CQL,
// asks here.
//
// A feed goes in rounds. A round begins with the horizons of the physical partitions of its scope: all commits up to
// them are applied, and all later ones are above. Then the logs are read up to there, in the order of the ring. What is
// written meanwhile belongs to the next round. A Token says which round is under way and how far it has come, by stamps
// and positions of the ring alone.
//
// Guarantees: (CF1) over a sequence of tokens each change of the scope comes once, and changes of a logical partition
// come in the order of their commits; of the latest versions, those that were overwritten before they were read do not
// come. (CF2) A token stays valid over splits, merges, moves and changes of leaders, and for any part of its scope. The
// package knows nothing of columns, of JSON or of CQL. Start at Reader.Page.
package feed
