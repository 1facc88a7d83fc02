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
// A Host holds all replicas of a node on one store: they share the latches and the committer. The package knows nothing of CQL
// text, of other nodes or of who sends. Start at Host, then Replica.Write and Replica.Decide.
package partition
