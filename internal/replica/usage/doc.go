// SPDX-License-Identifier: Apache-2.0

// Package usage records the resources that requests spend on one replica of a physical partition, and the logical
// partitions that spend them. It keeps request units, requests, bytes, and rejections per second and per minute. It
// also keeps the logical partitions with the highest load.
//
// Guarantees:
//
//   - (UF1) Counts since the start are exact.
//   - (UF2) The figure of a logical partition is never too low, and is too high by at most HeavyPartition.Over. A
//     partition that is not reported has used at most Top.Floor. Above notesMax requests per second, small requests are
//     sampled in proportion to their price. Figures then also have the error HeavyPartition.Noise.
//   - (UF3) A request costs a few atomic additions, and one lookup in a table of 512 counters if it is recorded. It
//     allocates nothing.
//   - (UF4) Memory is limited. A replica keeps two minutes of history per second, one hour per minute, and 512
//     counters. A replica that has been idle for an hour keeps nothing.
//
// The package stores ring positions instead of keys. It keeps a key only if a read has named it, because the key of a
// write is stored anyway. Start reading at Partition.RecordRead, then read heavy.go and history.go.
package usage
