// SPDX-License-Identifier: Apache-2.0

// Package partition implements one replica of one physical partition. It checks that a command belongs to the replica,
// evaluates it, has it ordered, applies it, and serves reads.
//
// All writes take the same path. A write becomes an entry of a log (package command), which is proposed to the
// replica's sequencer. The machine applies entries to the store, many in one batch:
//
//	Replica.Write, ConditionalWrite, WriteAll ── latches ── timestamps ── sequencer ── machine ── Completion.Done
//
// A sequencer orders the entries of a replica, makes them durable, and decides what may be read. The package has two
// implementations. A raftSequencer is a member of a Raft group; a quorum has its entries on disk before they are
// applied. A localSequencer serves a partition without other replicas; its entries are applied as they arrive, and its
// log is the log of the store.
//
// Guarantees:
//
//   - (P1) A write is acknowledged when it is applied on this node and a quorum has it on disk. Without other replicas,
//     it is acknowledged when the store has been synced after the write (Synced), or when a sync is at most
//     Options.SyncInterval away (Periodic).
//   - (P2) Within a logical partition, the log order is the order of the leader's timestamps, even after a crash or if
//     the clock has moved back.
//   - (P3) Nothing outside of the replica's span is ever read or applied.
//   - (P4) After a disk error, all writes are rejected: a failed sync is never retried.
//   - (P5) Data returned by a read survives a crash, except in Periodic mode: a read that sees an applied write that is
//     not yet durable waits for its sync.
//   - (P6) Replicas that have applied the same index have the same state. Applying an entry depends on the entry, the
//     meta, and the rows, but not on a clock, disk space, or configuration.
//   - (P7) A command is in the log in the term in which it was evaluated, or not at all.
//   - (P8) A command with an ID is applied at most once, regardless of leader changes and retries. A leader that cannot
//     know whether it was applied returns ErrUncertain.
//   - (P9) Reads are linearizable, except reads at ONE and LOCAL_ONE that a follower serves to its own node. Their
//     result is not older than Cluster.StalenessMax and includes the indexes passed to NoteAcknowledged.
//   - (P10) A condition is evaluated on everything before it in the log. A failed condition is reported only after the
//     rows that it has read are confirmed.
//   - (P11) The data written by a conditional write is visible to the next reader, regardless of earlier timestamps
//     from clients.
//   - (P12) The log of a partition is in the order of the leader's timestamps: when a timestamp is applied, all lower
//     timestamps have been applied. This also holds across splits and merges.
//
// The methods of Replica serve requests. The rest of a replica is divided by subject: Throughput admits requests, Load
// records them, SizeLimits bounds logical partitions, Control proposes splits, merges, and sweeps, Membership changes
// the replica set, and Hints reads the pending work for views.
//
// A Host holds all replicas of a node on one store. They share the latches, the machine, and the goroutines of the
// sequencers. Spans of its replicas never overlap. The package knows nothing of CQL text, addresses, or senders. Start
// reading at Host, then Replica.Write (write.go), sequencer.go, and machine.go.
package partition
