// SPDX-License-Identifier: Apache-2.0

// Package storage stores the rows of all replicas of a node in one Pebble store. It implements merging by timestamp,
// tombstones, TTLs, slices, index entries, sweeps, checkpoints, and snapshots of single replicas.
//
// Every write is a MERGE operand on the key of a row, a static row, or the deletions of a partition (see package row).
// A write therefore reads no data, and operands may arrive in any order. A read merges all operands through one
// iterator:
//
//	Apply  Mutation --> Batch: MERGE deletions, static row, rows, SET index entry --> memtable + log (unsynced)
//	Sync   everything applied before it survives a crash
//	Read   deletions, the deleted range that covers a row, statics if requested, rows --> row.Resolve --> Visitor
//	Sweep  candidates --> a command.Sweep, proposed by the caller --> ApplySweep: re-read, rewrite or delete
//	Move   CaptureSnapshot: one state of a partition --> file --> another node --> InstallSnapshot: excise and ingest in one step
//
// Guarantees:
//
//   - (ST1) Everything applied before a successful Sync survives any crash. A prefix of the applied batches survives.
//   - (ST2) A Read sees one state of a logical partition, never a part of a batch.
//   - (ST3) The result of applying a command depends only on the command and the content of the store. It does not
//     depend on a clock, on compactions, or on caches.
//   - (ST4) Bytes with a wrong checksum are never served: the read fails with the name of the file, and the store stops
//     serving.
//   - (ST5) A snapshot is installed completely or not at all, even if an error occurs. The installation does not affect
//     data that another replica owns.
//
// The data that a sweep removes also depends on the installed table, but readers cannot observe the difference (see
// Batch.Sweep). The package does not depend on CQL text, types, or the network.
//
// A Store consists of several parts, each with one responsibility. All parts share the engine, which is the Pebble
// store and its state. Readers and writers also share the type rows.
//
//	Directory   identity and feature level                        Reader      rows
//	Tables      what is known about tables                        Writer      batches of commands, including sweeps
//	Records     system keys, metas, ids of commands               Sweeper     finds invisible data
//	Statistics  counters, sizes, hashes                           Snapshots   whole partitions, out and in
//
// The internal parts are disk (free space, rejected writes) and runFinder (runs of dead rows). Start reading at Open,
// then read batch.go, read.go, and snapshotfile.go.
package storage
