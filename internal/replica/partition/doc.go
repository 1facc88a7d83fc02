// SPDX-License-Identifier: Apache-2.0

// Package partition is one replica of one physical partition: it checks that a command belongs here, evaluates it, has
// it ordered, applies it and serves reads.
//
// There is one path. A write becomes an entry of a log (package command), proposed to the replica's sequencer, and the
// machine applies entries to the store, many in one batch:
//
//	Replica.Write, Decide, WriteAll ── latches ── stamps ── sequencer ── machine ── Completion.Done
//
// A sequencer orders the entries of a replica, makes them durable, and says what may be read. There are two:
// raftSequencer, a member of a Raft group, whose entries a quorum has on disk before they are applied; and
// localSequencer, for a partition that has no other replicas, whose entries are applied as they come and whose log is
// the store's.
//
// Guarantees: (P1) a write is acknowledged when it is applied here and a quorum has it on disk; without other replicas,
// when the store was synced after it (Synced), or a sync is at most Options.SyncInterval away (Periodic). (P2) Within a
// logical partition the order of the log is the order of the leader's stamps, also over a crash and a clock that went
// back. (P3) Nothing outside the replica's span is ever read or applied. (P4) After an error of the disk nothing more
// is accepted: a sync that failed is never tried again. (P5) What a read returns survives a crash, but for Periodic: a
// read that meets a write which is applied and not yet durable waits for its sync. (P6) Replicas that have applied the
// same index hold the same: applying an entry reads the entry, the meta and the rows, no clock, no disk space, no
// configuration. (P7) A command is in the log in the term in which it was evaluated, or not at all. (P8) A command with
// an id is applied at most once, whoever leads and however often it is sent: a leader that cannot know says
// ErrUncertain. (P9) Reads are linearizable, but for ONE and LOCAL_ONE at a follower by its own node, which are no
// older than Cluster.StalenessMax and than what Seen was told. (P10) A condition is judged on everything before it in
// the log, and one that fails is told only when what it has read is confirmed. (P11) What a condition has written is
// what the next reader sees, whatever timestamps clients have chosen before. (P12) The log of a partition is in the
// order of the leader's stamps: when one is applied so are all lower ones, also over splits and merges.
//
// A Host holds all replicas of a node on one store: they share the latches, the machine and what drives the sequencers.
// Spans of its replicas never overlap. The package knows nothing of CQL text, of addresses or of senders. Start at
// Host, then Replica.Write (write.go), sequencer.go and machine.go.
package partition
