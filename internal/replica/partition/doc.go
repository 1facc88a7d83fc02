// SPDX-License-Identifier: Apache-2.0

// Package partition implements one replica of one physical partition. It checks that a command belongs to the replica,
// evaluates, orders, and applies the command, and serves reads.
//
// All writes take the same path. A write becomes a log entry (package command), which is proposed to the replica's
// sequencer. The machine applies many entries to the store in one batch:
//
//	Replica.Write, ConditionalWrite, WriteAll ── latches ── timestamps ── sequencer ── machine ── Completion.Done
//
// A sequencer orders the entries of a replica, makes them durable, and decides which data a read may return. The
// package has two implementations. A raftSequencer is a member of a Raft group. Its entries are on the disks of a
// quorum before they are applied. A localSequencer serves a partition without other replicas. Its entries are applied
// as they arrive, and its log is the log of the store.
//
// Guarantees:
//
//   - (P1) A write is acknowledged when it is applied on this node and a quorum has stored it on disk. If the partition
//     has no other replicas, a write is acknowledged after a sync (Synced), or before a sync that follows within
//     Options.SyncInterval (Periodic).
//   - (P2) Within a logical partition, the log is in the order of the leader's timestamps, even after a crash or if the
//     clock moves back.
//   - (P3) A replica never reads or applies data outside of its span.
//   - (P4) After a disk error, all writes are rejected. A failed sync is never retried.
//   - (P5) Data returned by a read survives a crash, except in Periodic mode. A read that sees an applied write waits
//     until the write is durable.
//   - (P6) Replicas that have applied the same index have the same state. The result of applying an entry depends on
//     the entry, the meta, and the rows, but not on a clock, disk space, or configuration.
//   - (P7) A command enters the log only in the term in which it was evaluated.
//   - (P8) A command with an ID is applied at most once, regardless of leader changes and retries. A leader returns
//     ErrUncertain if it does not know whether the command was applied.
//   - (P9) Reads are linearizable, except reads at ONE and LOCAL_ONE that a follower serves to its own node. The result
//     of such a read is not older than Cluster.StalenessMax and includes the indexes passed to NoteAcknowledged.
//   - (P10) A condition is evaluated on the result of all previous log entries. A failed condition is reported only
//     after its rows have been confirmed.
//   - (P11) Data from a conditional write is visible to the next reader, regardless of previous timestamps from
//     clients.
//   - (P12) The log of a partition is in the order of the leader's timestamps, even across splits and merges. When an
//     entry is applied, all entries with lower timestamps have been applied.
//
// The methods of Replica serve requests. Throughput admits requests, and Load records them. SizeLimits limits the size
// of logical partitions. Control proposes splits, merges, and sweeps. Membership changes the replica set. Hints reads
// the pending work for views.
//
// A Host holds all replicas of a node on one store. The replicas share the latches, the machine, and the goroutines of
// the sequencers. The spans of the replicas never overlap. The package does not depend on CQL text, addresses, or
// senders. Start reading at Host, and then read write.go, sequencer.go, and machine.go.
package partition
