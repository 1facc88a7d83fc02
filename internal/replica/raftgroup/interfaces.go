// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"io"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Log is where the entries of all groups are kept; package raftlog is one.
type Log interface {
	// Storage shows the log of a group as far as batches were committed. It is safe for concurrent use with them.
	Storage(group uint64) (raft.Storage, error)
}

// LogBatch collects what many groups write and commits it at once. It is empty again after Commit.
type LogBatch interface {
	Append(group uint64, entries []*pb.Entry) error
	SetHardState(group, term, vote, commit uint64) error
	// Truncate removes the entries up to index.
	Truncate(group, index, term uint64) error
	// Reset replaces the log by nothing behind (index, term).
	Reset(group, index, term uint64, members *pb.ConfState) error
	// Birth is Reset plus a hard state, for a group that has no record at all; else it does nothing and reports false.
	Birth(group, index, term uint64, members *pb.ConfState) (bool, error)
	Destroy(group uint64) error
	// Commit writes the batch; with sync it is durable when Commit returns, and everything committed before.
	Commit(sync bool) error
}

// StateMachine is what entries are applied to. One goroutine calls Apply, Members, Commit and Sync. An error of any stops the host.
type StateMachine interface {
	// Apply adds an entry to the open batch: its commands in order, and (index, term) as the group's applied index. The index is the
	// last one plus one. It appends one result for each command to results; they reach the proposer's Waiter as they are. Neither
	// commands nor results are kept.
	Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error)
	// Members adds a change of members, whose entry has this index, to the open batch. where says on which nodes they are, encoded
	// (DecodeMembers).
	Members(group, index, term uint64, members *pb.ConfState, where []byte) error
	// Commit writes the open batch and begins the next one. It is visible to readers when it returns, and not yet durable.
	Commit() error
	// Sync makes durable everything committed before.
	Sync() error
}

// SnapshotStore makes snapshots of a state machine's groups and installs them. It is safe for concurrent use, but not for one group.
type SnapshotStore interface {
	// Snapshot captures the group as it is now; metadata is exactly that of the captured state. The caller closes data.
	Snapshot(group uint64) (metadata *pb.SnapshotMetadata, data io.ReadCloser, err error)
	// Install replaces the group's state by data, durably. Nothing is applied to the group meanwhile.
	Install(group uint64, metadata *pb.SnapshotMetadata, data io.Reader) error
}

// Transport carries frames to other nodes. Frames may be lost; those of one sender to one receiver are not reordered. It is safe for
// concurrent use.
type Transport interface {
	// Send queues a copy of the frame and returns at once; false says that it was dropped because the peer's queue is full.
	Send(to NodeID, frame []byte) bool
	// SendSnapshot delivers a frame that may be large and returns when the receiver has it, or why not. It must not delay other frames.
	SendSnapshot(to NodeID, frame []byte) error
}

// Waiter hears once how a proposal or a read ended. It is called on the loop and must not block.
type Waiter interface{ Done(Outcome) }

// Outcome of a proposal or a read.
type Outcome struct {
	// Err is nil, ErrUnknown if a proposal may still be applied, or why nothing was done.
	Err error
	// Index and Term are those of the proposal's entry; Index of a read is what had to be applied.
	Index, Term uint64
	// Result is what the state machine returned for the proposal.
	Result any
}

// Member is a replica and the node it is on.
type Member struct {
	Replica uint64
	Node    NodeID
}
