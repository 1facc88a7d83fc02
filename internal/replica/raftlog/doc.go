// SPDX-License-Identifier: Apache-2.0

// Package raftlog keeps the Raft logs of all groups of a node in one Pebble store of its own, so that one sync makes
// durable everything that they had to write.
//
//	Batch:  Append, SetHardState, Truncate, Reset, Birth, ... of many groups ── Commit(sync) ── one write, at most one sync
//	Group:  raft.Storage of one group: the newest entries from memory, older ones from the store
//
// Keys, big-endian, in this order; group 0 is the store's own:
//
//	[0 u64][0]                   format of the store
//	[0 u64][1]                   label: whose logs these are, in the owner's words
//	[group u64][0]               hard state: term, vote, commit
//	[group u64][1]               truncated state: index and term of the last entry that is gone
//	[group u64][2]               conf state as of a birth, a reset or SetConfState
//	[group u64][3][index u64]    entry: term u64, type u8, data
//	[group u64][4]               installing: the index of a snapshot that may be installed and is not in the log yet
//
// Guarantees:
//
//   - (RL1) What a Commit(true) wrote, and everything committed before it, survives any crash; without a sync a prefix
//     of the commits does.
//   - (RL2) A batch is in the store whole or not at all.
//   - (RL3) No entry above the last one appended is ever read again: an append over existing entries deletes the rest of
//     the old tail in the same batch.
//   - (RL4) A birth never overwrites anything a group has.
//   - (RL5) After a failed commit nothing more is accepted.
//
// The package does not know the meaning of entries, nor when it is safe to truncate: its caller truncates only after a
// sync of the state that the entries led to. Start at Open, then Batch and Group.
package raftlog
