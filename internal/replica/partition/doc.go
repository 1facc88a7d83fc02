// SPDX-License-Identifier: Apache-2.0

// Package partition is one replica of one physical partition: it checks that a command belongs here, orders it, applies it and
// serves reads.
//
// Guarantees: (P1) a write is acknowledged when the store was synced behind it (Synced), or before that with a sync at most
// Options.SyncInterval away (Periodic); (P2) within a logical partition the order of commits is the order of stamps, also over a crash
// and a clock that went back; (P3) nothing outside the replica's span is ever read or applied; (P4) after an error of the disk
// nothing more is accepted: a sync that failed is never tried again; (P5) when Synced, what a read returns survives a crash: a read that
// meets a write which is applied but not yet durable waits for its sync.
//
//	Replica.Write/Decide ── latches ── stamp ── committer.order ── Store.Apply
//	                                                │
//	                                            committer ── Store.Sync ── Completion.Done
//
// With Options.Cluster the replicas are members of replica sets instead, and (P1) and (P5) read: a write is acknowledged when a quorum has it
// on disk and the leader has applied it, and readers see nothing else. Further: (P6) replicas that have applied the same
// index hold the same: applying an entry reads the entry, the meta and the rows, no clock, no disk space, no configuration;
// (P7) a command is in the log in the term in which it was evaluated, or not at all; (P8) a command with an id is applied at most
// once, whoever leads and however often it is sent: a leader that cannot know says ErrUncertain; (P9) reads are linearizable, but for
// ONE and LOCAL_ONE at a follower, which are no older than Cluster.StalenessMax and than what Seen was told; (P10) a condition is
// judged on everything before it in the log, and one that fails is told only if its replica still led after it had read.
//
//	Replica.Write/Decide ── latches ── stamp ── runner.Propose ── log, quorum ── machine.Apply ── flight.Done ── Completion.Done
//
// A Host holds all replicas of a node on one store: they share the latches, and the committer or the Raft groups' runner. Spans of its
// replicas never overlap. The package knows nothing of CQL text, of addresses or of who sends. Start at Host, then Replica.Write and
// Replica.Decide; in a cluster at member, proposer.go and machine.go.
package partition
