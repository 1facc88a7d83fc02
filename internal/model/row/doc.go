// SPDX-License-Identifier: Apache-2.0

// Package row implements the stored form of a CQL row: cells with timestamps, deletions, and times to live. It also
// defines the operands that change a row and the rule that merges operands.
//
// A stored row is the merge of all operands that have ever been written under its key. Rows, static rows, the
// deletions of a partition and of its ranges, and deleted ranges under separate keys have the same format. A header
// operand contains static cells and deletions. Split separates them when the operand is stored.
//
// Guarantees:
//
//   - (RW1) Merge is commutative, associative, and idempotent. It is a pure function of its operands, so it reads no
//     clock and never purges data. The result is canonical, so equal rows have equal bytes.
//   - (RW2) Of two cells, the cell with the higher timestamp wins. If the timestamps are equal, a deletion wins over a
//     value, an expiring cell wins over a cell that does not expire, and a later expiry wins over an earlier expiry.
//     If these properties are also equal, the larger value (as unsigned bytes) wins.
//   - (RW3) A deletion hides all data with the same timestamp or a lower one.
//
// The package does not depend on tables. Start reading at Builder for writing, at Row and Header for reading, and at
// Merge for the merge rule.
//
// # Format
//
// The format is part of the store format version (storage.Identity). An operand and a merged row have the same format:
//
//	flags u8       1 marker, 2 marker expires, 4 marker has a separate timestamp, 8 row deletion, 16 deleted ranges,
//	               32 more ranges under separate keys, 64 marker has a lifetime
//	base i64 BE    the timestamp to which all others are relative; Stamp sets it in place
//	marker         [delta]  [ttl uvarint, expiry uvarint]  [lifetime uvarint, written uvarint]
//	row deletion   delta, at uvarint
//	ranges         count uvarint, then each: flags u8 (1 = no end), delta, at uvarint, start bytes, end bytes
//	entries        to the end, ascending by (column, deletion before cells, path):
//	  kind u8      bits 0-1: 0 column deletion, 1 cell, 2 expiring cell, 3 tombstone
//	               bits 2-3: timestamp is 0 base, 1 base-1, 2 base+delta
//	               bit 4: has a path
//	  column uvarint, [delta], [path bytes]
//	  deletions    at uvarint
//	  cells        [ttl uvarint, expiry uvarint], value bytes
//
// A lifetime is in seconds, or 0 for the default of the table. The lifetime starts at the second "written" (see
// Lifetimes).
//
// A delta is a zigzag varint. Bytes are encoded as a uvarint length followed by that number of bytes. Ranges are
// disjoint and ascending intervals [start, end) of clustering keys. In the deletions of a partition, the row deletion
// represents the partition deletion. In a deletion, "at" is the second at which the deletion was made. This second
// determines when the deletion may be swept, but does not determine which data the deletion hides.
//
// In canonical form, base is the marker's timestamp, or the highest timestamp if the row has no marker. Data that a
// deletion in the same row hides is removed. An INSERT of five columns therefore stores its timestamp only once.
package row
