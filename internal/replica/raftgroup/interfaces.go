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
	// Installing returns what LogBatch.Install noted last, 0 after a Reset.
	Installing(group uint64) (uint64, error)
}

// LogBatch collects what many groups write and commits it at once. It is empty again after Commit.
type LogBatch interface {
	Append(group uint64, entries []*pb.Entry) error
	SetHardState(group, term, vote, commit uint64) error
	// Truncate removes the entries up to index.
	Truncate(group, index, term uint64) error
	// Install notes that a snapshot at index is about to be installed, so that the state may be ahead of the log until
	// a Reset.
	Install(group, index uint64) error
	// Reset replaces the log by an empty one that begins after (index, term).
	Reset(group, index, term uint64, members *pb.ConfState) error
	// Birth is Reset plus a hard state, for a group that has no record at all; else it does nothing and reports false.
	// It makes votes and acknowledgements forgotten if there ever were any.
	Birth(group, index, term uint64, members *pb.ConfState) (bool, error)
	Destroy(group uint64) error
	// Commit writes the batch; with sync it is durable when Commit returns, and everything committed before.
	Commit(sync bool) error
}

// StateMachine is what entries are applied to. One goroutine calls Apply, Members, Commit and Sync. An error of any
// stops the host.
type StateMachine interface {
	// Apply adds an entry to the open batch: its commands in order, and (index, term) as the group's applied index. The
	// index is the last one plus one. It appends one result for each command to results; they reach the proposer's
	// Waiter as they are. Neither commands nor results are kept.
	Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error)
	// Members adds a change of members, whose entry has this index, to the open batch. where says on which nodes they
	// are, encoded (DecodeMembers).
	Members(group, index, term uint64, members *pb.ConfState, where []byte) error
	// Commit writes the open batch and begins the next one. It is visible to readers when it returns, and not yet
	// durable.
	Commit() error
	// Sync makes durable everything committed before.
	Sync() error
}

// SnapshotStore makes snapshots of a state machine's groups, takes those that arrive, and installs them. It is safe for
// concurrent use; Snapshot and Install are not called for one group at a time.
type SnapshotStore interface {
	// Snapshot captures the group as it is now; metadata is exactly that of the captured state. The caller closes data.
	Snapshot(group uint64) (metadata *pb.SnapshotMetadata, data SnapshotData, err error)
	// Receive keeps what arrives, on disk and not in memory, until it is closed: it may be installed, or thrown away
	// because it is not needed any more. Nothing of the group changes. It reads to io.EOF, which comes only if every
	// byte is right. What it leaves on disk when the process ends has to be removed at the next start.
	Receive(group uint64, r io.Reader) (SnapshotData, error)
	// Install replaces the group's state by what Receive returned, durably. Nothing is applied to the group meanwhile.
	// The caller closes data, whatever comes of it.
	Install(group uint64, metadata *pb.SnapshotMetadata, data SnapshotData) error
}

// SnapshotData is a snapshot without its metadata: bytes that are kept until Close.
type SnapshotData interface {
	io.ReaderAt
	Size() int64
	Close() error
}

// Transport carries frames to other nodes. Frames may be lost; those of one sender to one receiver are not reordered.
// It is safe for concurrent use.
type Transport interface {
	// Send queues a copy of the frame and returns at once; false says that it was dropped because the peer's queue is
	// full.
	Send(to NodeID, frame []byte) bool
	// SendSnapshot delivers head and then size bytes of data to Runner.ReceiveSnapshot, and returns when that did, or
	// why not. It bounds the rate and must not delay frames.
	SendSnapshot(to NodeID, head []byte, data io.ReaderAt, size int64) error
}

// Waiter hears once how a proposal or a read ended. It is called on the loop and must not block.
type Waiter interface{ Done(Outcome) }

// Outcome of a proposal or a read.
type Outcome struct {
	// Err is nil, ErrUnknown if a proposal may have been applied or may still be, or why nothing was done and never
	// will be.
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
