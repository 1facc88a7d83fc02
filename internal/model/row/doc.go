// SPDX-License-Identifier: Apache-2.0

// Package row is the stored form of a CQL row: cells with timestamps, deletions and times to live, the operands that
// change it, and the rule by which operands merge.
//
// A stored row is the merge of all operands ever written under its key. The same form serves a row, the static row, the
// deletions of a partition (its own and those of ranges), and a deleted range with a key of its own. A header operand
// is of static cells and deletions, and is taken apart when it is stored (Split).
//
// Guarantees: (RW1) Merge is commutative, associative and idempotent, and a pure function of its operands: it reads no
// clock and never purges; what it returns is canonical, so equal rows have equal bytes; (RW2) of two cells the higher
// timestamp wins, on a tie a deletion beats a value, an expiring cell beats one that does not expire, the later expiry
// an earlier one, and then the larger value (as unsigned bytes) wins; (RW3) a deletion hides what has its timestamp or
// a lower one. The package knows nothing of tables. Start at Builder for writing, Row and Header for reading, Merge for
// the rule.
//
// # Format
//
// The format is part of the store format version (storage.Identity). An operand and a merged row look the same:
//
//	flags u8       1 marker, 2 marker expires, 4 marker has its own timestamp, 8 row deletion, 16 deleted ranges,
//	               32 more ranges under keys of their own, 64 marker has a lifetime
//	base i64 BE    the timestamp that all others refer to; Stamp patches it in place
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
// lifetime is in seconds, 0 for the default of the table, and counts from the second written on (Lifetimes).
//
// delta is a zigzag varint, bytes are a uvarint length and that many bytes. Ranges are disjoint and ascending, [start,
// end) of clustering keys; among deletions the row deletion is the deletion of the partition. "at" is the second at
// which a deletion was made: it decides when it may be swept, never what it hides.
//
// In canonical form base is the marker's timestamp, or the highest one where there is no marker, and nothing is kept
// that a deletion beside it hides. So an INSERT of five columns stores its timestamp once.
package row
