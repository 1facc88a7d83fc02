// SPDX-License-Identifier: Apache-2.0

// Package archive is what a backup is made of: files of keys and values, and the manifest that lists them.
//
//	manifest    "ilion-backup 1 <SHA-256 of the rest>\n", JSON of Manifest
//	file        "ilionrow", format u8, a zstd frame of the records; its name is the SHA-256 of the plain records
//	segment     "ilion-log 1 <SHA-256 of the rest>\n", JSON of Segment, "\n", files of records
//	records     in ascending order of keys: length that the key shares with the one before it, length of its rest,
//	            length of the value (uvarints), rest, value. Keys are those of package keys without the table's id.
//
// Where one file ends and the next begins is a function of keys and sizes of values near the place (Cut), so a change
// of some rows changes the files that they are in, and no others: a backup sends what it has not sent before.
//
// Guarantees: (AV1) what was damaged is never taken for what was written: every byte is covered by a digest that
// somebody else keeps, the manifest's by its own first line; (AV2) a newer format is refused as such. The package
// touches no disk and no network. Start at Manifest, then Builder.
package archive
