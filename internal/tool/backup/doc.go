// SPDX-License-Identifier: Apache-2.0

// Package backup makes backups of a cluster that runs, lists, verifies and restores them. It asks one node of the
// cluster (Door), and keeps files at a Target; nodes know nothing of targets.
//
//	files/<2 of 64>/<64>      keys and values; a name is a digest of what is in the file (package archive)
//	backups/<id>/manifest     a complete backup
//	backups/log/<name>        a segment of the log of an archive, which goes on from backups of its marks
//	backups/follower          who archives: whoever began last
//	pending/<id>/<n>          what a backup that is being made has stored so far, in manifests of their own
//	sealed                    says that the place is encrypted, and by which key; then digests in names are, too
//
// Guarantees: (BK1) a manifest is stored when all that it lists is there, so a process may die at any time; (BK2) what
// is stored is not sent again, neither by a later backup nor by one that was begun anew after it died; (BK3) a restore
// takes only what has its digest, and may be repeated as a whole or in parts; (BK4) a place is encrypted by one key or
// not at all, and what was encrypted is taken for what was put under its name, or for nothing; (BK5) any mark of an
// archive is restored as it was, or an error says which part is missing. Memory is bounded by some files for each of
// Parallel, and by what nodes keep of what is to be archived. Start at Place, Maker and Restorer, then Follower and
// Comparer.
package backup
