// SPDX-License-Identifier: Apache-2.0

// Package keys defines all keys of the store. Keys are compared as bytes and have this order:
//
//	id 0           the node itself                   [0 u32][name]: its starts, and observed starts of other nodes
//	id 1           partition meta (see Meta)         [1 u32][physical partition u64]
//	id 2           replica registry (see Replica)    [2 u32][physical partition u64]
//	id 3           keys of the meta partition        [3 u32][any bytes]: schema, nodes, topology
//	id 4           flags of tables                   [4 u32][table u32]
//	id 5           tombstone cache, local to a node  [5 u32][key of a partition without its kind]
//	id 6           sweep queue, local to a node      [6 u32][table u32][class u8][second u64][rest of a key of the table]
//	id 7           progress of all partitions        [7 u32], one key (see Progress)
//	8 .. 511       reserved
//	512 ..         tables without special bits       [table u32][position][len(pk) u16][pk][kind u8][rest]
//	  kind 0         deletions                         of the partition, and of ranges that are not stored separately
//	  kind 1         deleted range                     rest = [0][end], or [1] if it has no end
//	  kind 2         static row
//	  kind 3         row                               rest = clustering key
//	  kind 4         dedupe record                     rest = [coordinator 16][sequence u64]
//	  kind 5         latest change of a row            rest = [timestamp u64][clustering key], since feature level 4
//	  kind 6         kept change                       rest as for kind 5
//	  kind 7         timestamp of the latest change    rest = clustering key, since feature level 5
//	  kind 8 ..      unassigned
//	bit 29 set     indexes                           [index u32][len(value) u16][value][position][len(pk) u16][pk][clustering]
//	bits 29, 28    ordered indexes                   [index u32][value][0 1][position][len(pk) u16][pk][clustering]
//	bits 29, 27    view hints                        [index u32][len(value) u16][value][position][len(pk) u16][pk][rest]
//	bit 30 set     tables, bloom filter by row       as tables
//	bit 31 set     tables on the wide ring           as tables
//
// In an ordered index, each zero byte of a value is followed by 0xff. Entries are therefore ordered by their values,
// which are compared as bytes. In other indexes, entries are ordered by length first. View hints (RFC 0030) are the
// only index entries that store a value, which is a timestamp.
//
// All integers are big-endian. A position is the token with its sign flipped, in 8 bytes. If bit 31 of the table ID is
// set, the position consists of 16 bytes of a wider hash. The position precedes the partition key. Therefore, a token
// range is a key range, and a split moves no bytes. Partition keys with equal tokens are ordered by length, and then
// by bytes.
//
// The deleted ranges of kind 1 are disjoint and ordered by their ends. For each clustering key, only the first range
// that ends after the key can contain the key. A write adds a deleted range to kind 0 without reading the other
// deletions. A later operation moves the range to kind 1.
//
// The change log (kinds 5 to 7, RFC 0024) follows the rows of its partition in commit order. It is split, transferred,
// merged, and truncated together with the rows.
//
// Guarantees:
//
//   - (KY1) The prefix that Split returns is self-delimiting, so no prefix is the start of another prefix.
//   - (KY2) No key contains the ID of a physical partition, except the partition's own meta and registry record.
//
// Callers reject partition keys and indexed values of more than MaxLen bytes. Without this check, longer keys and
// values would be truncated. The package does not depend on the format of values or on Pebble. Start reading at
// AppendRow and at Split.
package keys
