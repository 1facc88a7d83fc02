// SPDX-License-Identifier: Apache-2.0

// Package backfill writes the entries of rows that were there before their index. Later writes make their own entries.
//
// Which indexes are to be built is in the records (meta.State.Building), how far they have come (meta.State.Builds),
// and that one has been built. In a cluster the node that leads the meta partition builds. Wherever a build ends
// early, by a crash or because another node leads, whoever builds next goes on from the place that was noted last:
// what was written before is durable, and entries that are written twice are the same entries.
//
// Guarantees: (B1) when an index is no longer in Building, every row that was acknowledged before is found by it, and
// so is every later one: first all partitions of the table refuse mutations that were planned without the index
// (Require), and what they had accepted by then is applied, so the scan that follows reads it; (B2) an index that was
// dropped, or whose table was, leaves Building without having been built, and only when the records say so too.
//
// Start at Builder.Build.
package backfill
