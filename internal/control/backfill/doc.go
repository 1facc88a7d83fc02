// SPDX-License-Identifier: Apache-2.0

// Package backfill writes the index entries of rows that existed before their index. All later writes also write their
// index entries.
//
// The metadata contains the incomplete indexes (meta.State.Building) and the progress of their builds
// (meta.State.Builds). In a cluster, the node that leads the meta partition builds the indexes. After a crash or a
// leader change, the next build resumes from the saved progress. This is safe because earlier entries are durable and
// writing an entry twice has no effect.
//
// Guarantees:
//
//   - (B1) An index that is not in Building finds every acknowledged row. Before the scan, all partitions of the table
//     begin to reject mutations that were planned without the index (Require). All previously accepted mutations have
//     then been applied, so the scan reads them.
//   - (B2) An index is removed from Building without a build if the index or its table is dropped.
//
// Start reading at Builder.Build.
package backfill
