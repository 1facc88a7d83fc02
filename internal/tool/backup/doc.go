// SPDX-License-Identifier: Apache-2.0

// Package backup creates, lists, verifies, and restores backups of a running cluster. It sends requests to one node of
// the cluster (NodeClient) and stores files at a Target. Nodes do not access targets.
//
//	files/<2 of 64>/<64>      keys and values; the name is the digest of the contents (package archive)
//	backups/<id>/manifest     a complete backup
//	backups/log/<name>        a segment of the log of an archive, which continues base backups
//	backups/follower          the follower that writes the archive: the one that started last
//	pending/<id>/<n>          manifests of the files that an incomplete backup has stored so far
//	sealed                    marks an encrypted repository and names its key; the digests in names are encrypted too
//
// Guarantees: (BK1) A manifest is stored after all files that it lists. Therefore, the process may be killed at any
// time. (BK2) A stored file is not transferred again. This applies to later backups, and to backups that are repeated
// after a crash. (BK3) A restore accepts only files whose digest matches. A restore can be repeated completely or in
// parts. (BK4) A repository is either encrypted with a single key or not encrypted. The decryption of a file returns
// the contents that were stored under its name, or an error. (BK5) Every restore point of an archive is restored
// exactly. Otherwise, an error names the missing part. The memory that the package uses is limited to a few files per
// parallel transfer, and to the changes that nodes keep for the archive. Start reading at Place, Maker, and Restorer,
// and continue with Follower and Comparer.
package backup
