// SPDX-License-Identifier: Apache-2.0

// Package keys holds every key in the store. Keys compare as bytes, and this is their order:
//
//	id 0           the node itself                   [0 u32][name]: its starts, those seen of others (lineage)
//	id 1           partition meta (see Meta)         [1 u32][physical partition u64]
//	id 2           replica registry (see Replica)    [2 u32][physical partition u64]
//	id 3           the meta partition's own keys     [3 u32][any bytes]: schema, nodes, the partition map
//	id 4           flags of tables                   [4 u32][table u32]
//	id 5           runs of dead rows, a node's own   [5 u32][key of a partition without its kind]
//	id 6           notes of what is due, a node's own [6 u32][table u32][class u8][second u64][rest of a key of the table]
//	id 7           progress of all partitions        [7 u32], one key (see Progress)
//	8 .. 511       reserved
//	512 ..         tables without special bits       [table u32][position][len(pk) u16][pk][kind u8][rest]
//	  kind 0         deletions                         the partition's, and those of ranges that are still together
//	  kind 1         deleted range                     rest = [0][end], or [1] where it has no end
//	  kind 2         static row
//	  kind 3         row                               rest = clustering key
//	  kind 4         dedupe record                     rest = [coordinator 16][sequence u64]
//	  kind 5         latest change of a row            rest = [stamp u64][clustering key], from feature level 4 on
//	  kind 6         change that is kept               rest as of kind 5
//	  kind 7         stamp of a row's latest change    rest = clustering key, from feature level 5 on
//	  kind 8 ..      unassigned
//	bit 29 set     indexes                           [index u32][len(value) u16][value][position][len(pk) u16][pk][clustering]
//	bits 29, 28    ordered indexes                   [index u32][value][0 1][position][len(pk) u16][pk][clustering]
//	bits 29, 27    hints of views                    [index u32][len(value) u16][value][position][len(pk) u16][pk][rest]
//	bit 30 set     tables, bloom filter by row       as tables
//	bit 31 set     tables on the wide ring           as tables
//
// In an ordered index a zero byte of a value is followed by 0xff, so its entries are in the order of their values, as
// bytes; in others they are in order of length first.
//
// Entries of hints (RFC 0030) are the only ones of an index that have a value, a stamp.
//
// All integers are big-endian. A position is the token with its sign flipped, 8 bytes; in an id with bit 31 it is 16
// bytes of a wider hash. It stands before the partition key, so a range of tokens is a range of keys, and a split moves
// no bytes. Two partition keys with one token are in order of length, then of bytes.
//
// The deleted ranges of kind 1 are disjoint, and in order of their ends: the first one that ends after a clustering key
// covers it, or none of them does. They come from kind 0, where a write leaves a deleted range without knowing what
// else is deleted.
//
// The change log (kinds 5 to 7, RFC 0024) stands behind the rows of its partition, in the order of commits. It splits,
// travels, merges and is truncated with them.
//
// Guarantees: (KY1) the prefix that Split cuts off is self-delimiting, so no prefix is the beginning of another one;
// (KY2) no key carries the id of a physical partition, except the partition's own meta and registry record. Partition
// keys and indexed values of more than MaxLen bytes are refused before they come here; longer ones are cut off. The
// package knows nothing of values or of Pebble. Start at AppendRow and Split.
package keys
