// SPDX-License-Identifier: Apache-2.0

// Package archive defines the format of backups. A backup consists of files of keys and values, and of a manifest that
// lists the files. The package also defines the log segments of an archive.
//
//	manifest    "ilion-backup 1 <SHA-256 of the rest>\n", JSON of Manifest
//	file        "ilionrow", format u8, a zstd frame of the records; its name is the SHA-256 of the plain records
//	segment     "ilion-log 1 <SHA-256 of the rest>\n", JSON of Segment, "\n", files of records
//	records     in ascending order of keys: length of the prefix shared with the previous key, length of the rest,
//	            length of the value (uvarints), rest, value. Keys are those of package keys without the table ID.
//
// File boundaries depend only on nearby keys and value sizes (see IsFileBoundary). A change to a few rows therefore
// changes only the files that contain these rows. A backup transfers only files that have not been transferred before.
//
// Guarantees:
//
//   - (AV1) Damage is always detected. Every byte is covered by a digest that is stored elsewhere. The manifest's
//     digest is in the first line of the manifest.
//   - (AV2) A newer format is rejected as newer instead of damaged.
//
// The package accesses neither disk nor network. Start reading at Manifest, and continue with Builder.
package archive
