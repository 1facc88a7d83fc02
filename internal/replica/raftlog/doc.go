// SPDX-License-Identifier: Apache-2.0

// Package raftlog stores the Raft logs of all groups of a node in one Pebble store, so that one sync makes the writes
// of all groups durable.
//
//	Batch:  Append, SetHardState, Truncate, Reset, Create, ... of many groups ── Commit(sync) ── one write, at most one sync
//	Group:  raft.Storage of one group: the newest entries from memory, older ones from the store
//
// Keys are big-endian and have this order. Group 0 contains the records of the store itself:
//
//	[0 u64][0]                   format of the store
//	[0 u64][1]                   label: whose logs these are, in the owner's words
//	[group u64][0]               hard state: term, vote, commit
//	[group u64][1]               truncated state: index and term of the last removed entry
//	[group u64][2]               conf state as of a Create, a Reset or SetConfState
//	[group u64][3][index u64]    entry: term u64, type u8, data
//	[group u64][4]               installing: the index of a snapshot that may be installed and is not in the log yet
//
// Guarantees:
//
//   - (RL1) A Commit(true) and all earlier commits survive any crash. A prefix of the later commits survives.
//   - (RL2) A batch is stored completely or not at all.
//   - (RL3) An entry above the last appended entry is never read again. If an append overwrites existing entries, the
//     same batch deletes the rest of the old tail.
//   - (RL4) Create never overwrites a record of a group.
//   - (RL5) After a failed commit, all further writes are rejected.
//
// The package does not interpret entries. Callers must truncate a log only after a sync of the state that results from
// the entries. Start reading at Open, then read Batch and Group.
package raftlog
