// SPDX-License-Identifier: Apache-2.0

// Package usage records the resources that requests spend on one replica of a physical partition. It records request
// units, requests, bytes, and rejections per second and per minute. It also records the logical partitions with the
// highest load.
//
// Guarantees:
//
//   - (UF1) Counts since the start are exact.
//   - (UF2) The reported units of a logical partition are never too low, and exceed the true value by up to
//     HeavyPartition.Over. The units of an unreported partition do not exceed Top.Floor. Above notesMax requests per
//     second, small requests are sampled in proportion to their price, which causes the additional error
//     HeavyPartition.Noise.
//   - (UF3) Recording a request needs no allocation. It costs a few atomic additions and one lookup in a table of 512
//     counters.
//   - (UF4) Memory is limited. A replica stores two minutes of history per second, one hour of history per minute, and
//     512 counters. A replica that has been idle for an hour stores no history.
//
// The package stores ring positions instead of keys. It stores a key only for a read, because the key of a write is in
// the store. Start reading at Partition.RecordRead, then read heavy.go and history.go.
package usage
