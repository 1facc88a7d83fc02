// SPDX-License-Identifier: Apache-2.0

// Package usage is what has been spent at one replica of a physical partition, and by which logical partitions: request
// units, requests, bytes and refusals by second and by minute, and the logical partitions that take most.
//
// Guarantees: (UF1) counts since the beginning are exact. (UF2) The figure of a logical partition is never too low by
// what was counted, and too high by Heavy.Over at most; one that is not told of has Top.Floor at most. Above notesMax
// requests a second small ones are sampled, in proportion to their price: then figures have the noise of Heavy.Noise in
// addition. (UF3) A request costs a few atomic additions, and one look into a table of 512 counters if it is noted;
// nothing is allocated. (UF4) What is kept is bounded: two minutes by seconds, an hour by minutes, 512 counters, and
// nothing of what has been idle for an hour.
//
// It knows places on the ring, not keys: the key is kept only where a read has named it, because that of a write is
// stored anyway. Start at Partition.Read, then heavy.go and history.go.
package usage
