// SPDX-License-Identifier: Apache-2.0

// Package storage keeps the rows of all replicas of a node in one Pebble store: merge by timestamp, tombstones, times
// to live, slices, index entries, sweeps, checkpoints, and snapshots of single replicas.
//
// Every write is a MERGE operand on the key of a row, a static row or the deletions of a partition (package row has the
// rule), so a write reads nothing and the order in which operands arrive does not matter. A read sees all of them
// through one iterator:
//
//	Apply  Mutation --> Batch: MERGE deletions, static row, rows, SET index entry --> memtable + log (unsynced)
//	Sync   everything applied before it survives a crash
//	Read   deletions, the deleted range that covers a row, statics if asked for, rows --> row.Resolve --> Visitor
//	Sweep  candidates --> a command.Sweep, proposed by the caller --> ApplySweep: re-read, rewrite or delete
//	Move   CaptureSnapshot: one state of a partition --> file --> another node --> InstallSnapshot: excise and ingest in one step
//
// Guarantees: (ST1) what was applied before a successful Sync survives any crash, and what survives is a prefix of what
// was applied, batch by batch; (ST2) a Read sees one state of a logical partition, never half a batch; (ST3) what
// applying does is a function of the store's content and the command, never of a clock, of Pebble's compactions or of
// what is cached; (ST4) bytes that fail their checksum are never served: the read fails, naming the file, and the store
// stops serving; (ST5) a snapshot is installed whole or not at all, whatever fails, and touches nothing that another
// replica owns. What a sweep removes depends on the installed table too, in ways that nobody sees (see Batch.Sweep).
// The package knows nothing of CQL text, types or the network.
//
// A Store is put together of parts with one job each, over one engine (the Pebble store, and whether it still serves)
// and over what readers and writers of rows have to know of each other (rows):
//
//	Directory   whose data there are, at which feature level      Reader      rows
//	Tables      what is known about tables                        Writer      batches of commands, sweeps among them
//	Records     system keys, metas, ids of commands               Sweeper     finds what nobody can see any more
//	Statistics  counters, sizes, hashes                           Snapshots   whole partitions, out and in
//
// and, inside, disk (how full it is, what is refused) and learner (runs of dead rows). Start at Open, then batch.go,
// read.go, snapshot.go.
package storage
