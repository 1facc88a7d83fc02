// SPDX-License-Identifier: Apache-2.0

// Package backfill writes the index entries of rows that existed before their index. Later writes create their index
// entries themselves.
//
// The metadata records which indexes must be built (meta.State.Building), their progress (meta.State.Builds), and when
// they are complete. In a cluster, the node that leads the meta partition builds the indexes. If a build ends early,
// because of a crash or a change of the leader, the next build resumes from the saved progress. Earlier entries are
// durable, and writing an entry twice has no effect.
//
// Guarantees:
//
//   - (B1) When an index is no longer in Building, it finds every row acknowledged before or after that time. All
//     partitions of the table first reject mutations planned without the index (Require). Mutations accepted earlier are
//     applied by then, so the scan reads them.
//   - (B2) An index that was dropped, or whose table was dropped, leaves Building without having been built.
//
// Start reading at Builder.Build.
package backfill
