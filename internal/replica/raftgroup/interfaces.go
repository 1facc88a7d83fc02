// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"io"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Log stores the entries of all groups. Package raftlog implements it.
type Log interface {
	// Storage returns the log of a group, including all committed batches. It may be called concurrently with the use
	// of batches.
	Storage(group uint64) (raft.Storage, error)
	// Installing returns the last index passed to LogBatch.Install, or 0 after a Reset.
	Installing(group uint64) (uint64, error)
}

// LogBatch collects the writes of many groups and commits them together. It is empty after Commit.
type LogBatch interface {
	Append(group uint64, entries []*pb.Entry) error
	SetHardState(group, term, vote, commit uint64) error
	// Truncate removes the entries with indexes up to index.
	Truncate(group, index, term uint64) error
	// Install records that the installation of a snapshot at index begins. The state may be ahead of the log until
	// Reset is called.
	Install(group, index uint64) error
	// Reset replaces the log with an empty log that starts after (index, term).
	Reset(group, index, term uint64, members *pb.ConfState) error
	// Create executes Reset and writes a hard state if the group has no record. If the group has a record, Create
	// returns false and has no effect. If an existing group has no record, its votes and acknowledgments have been
	// lost.
	Create(group, index, term uint64, members *pb.ConfState) (bool, error)
	Destroy(group uint64) error
	// Commit writes the batch. If sync is true, the batch and all earlier commits are durable when Commit returns.
	Commit(sync bool) error
}

// StateMachine applies entries. A single goroutine calls all methods. An error from a method stops the host.
type StateMachine interface {
	// Apply adds an entry to the open batch. It adds the entry's commands in order, and stores (index, term) as the
	// group's applied index. The index is the previous index plus one. Apply appends one result for each command to
	// results. The proposer's Waiter receives these results unchanged. Apply must not retain commands or results.
	Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error)
	// Members adds a membership change to the open batch. index is the index of its entry. where contains the encoded
	// nodes of the members (see DecodeMembers).
	Members(group, index, term uint64, members *pb.ConfState, where []byte) error
	// Commit writes the open batch and starts the next batch. When Commit returns, the batch is visible to readers, but
	// need not be durable.
	Commit() error
	// Sync makes all earlier commits durable.
	Sync() error
}

// SnapshotStore creates snapshots of a state machine's groups, stores received snapshots, and installs them.
// Implementations must be safe for concurrent use. Snapshot and Install are not called concurrently for one group.
type SnapshotStore interface {
	// Snapshot captures the current state of a group. metadata describes exactly the captured state. The caller must
	// close data.
	Snapshot(group uint64) (metadata *pb.SnapshotMetadata, data SnapshotData, err error)
	// Receive stores an incoming snapshot on disk until the snapshot is closed. It does not change the state of the
	// group. Receive reads to io.EOF. The stream must return io.EOF only if every byte is correct. Files that remain
	// after the end of the process must be removed at the next start.
	Receive(group uint64, r io.Reader) (SnapshotData, error)
	// Install durably replaces the group's state with a snapshot returned by Receive. No entry is applied to the group
	// during the call. The caller always closes data.
	Install(group uint64, metadata *pb.SnapshotMetadata, data SnapshotData) error
}

// SnapshotData is the data of a snapshot without the metadata. It remains readable until Close.
type SnapshotData interface {
	io.ReaderAt
	Size() int64
	Close() error
}

// Transport sends frames to other nodes. Frames may be lost. Frames from one sender to one receiver are not reordered.
// Implementations must be safe for concurrent use.
type Transport interface {
	// Send queues a copy of the frame and returns immediately. It returns false if the frame was dropped because the
	// peer's queue is full.
	Send(to NodeID, frame []byte) bool
	// SendSnapshot delivers head, followed by size bytes of data, to Runner.ReceiveSnapshot on the receiver, and
	// returns the result. It must not delay frames.
	SendSnapshot(to NodeID, head []byte, data io.ReaderAt, size int64) error
}

// Waiter receives the outcome of a proposal or a read exactly once. Done is called on the loop and must not block.
type Waiter interface{ Done(Outcome) }

// Outcome is the outcome of a proposal or a read.
type Outcome struct {
	// Err is nil on success. ErrUnknown means that a proposal may have been applied or may be applied later. Any other
	// error means that the request had no effect and will have none.
	Err error
	// Index and Term identify the proposal's entry. For a read, Index is the index that the replica had to apply.
	Index, Term uint64
	// Result is the result of the state machine for the proposal.
	Result any
}

// Member is a replica and its node.
type Member struct {
	Replica uint64
	Node    NodeID
}

// Observer receives events. Its methods are called during steps and must not block. An implementation can embed
// NoObserver to ignore events.
type Observer interface {
	// LeaderChanged is called when the group follows leader in term. leader.Replica is 0 if the group has no leader.
	// leader.Node is zero while the node is unknown.
	LeaderChanged(group uint64, leader Member, term uint64)
	// Quiesced is called when the group becomes quiescent or wakes.
	Quiesced(group uint64, quiet bool)
	// PeerDown is called when no frame has been received from the node for an election timeout, and again when the node
	// is available.
	PeerDown(node NodeID, down bool)
	// UnknownGroup is called for a message to a group without a replica on this node, or to a newer replica than the
	// replica on this node.
	UnknownGroup(group, replica uint64, from NodeID)
	// SnapshotSent and SnapshotInstalled are called with the result of a transfer or an installation.
	SnapshotSent(group, to uint64, err error)
	SnapshotInstalled(group, index uint64)
	// Truncated is called after a truncation of the log up to index.
	Truncated(group, index uint64)
	// Dropped is called when n messages have been dropped because of a limit in Options.
	Dropped(limit string, n int)
	// Failed is called when the runner has stopped because of err.
	Failed(err error)
}

// NoObserver is an Observer that ignores all events.
type NoObserver struct{}

// LeaderChanged implements Observer.
func (NoObserver) LeaderChanged(uint64, Member, uint64) {}

// Quiesced implements Observer.
func (NoObserver) Quiesced(uint64, bool) {}

// PeerDown implements Observer.
func (NoObserver) PeerDown(NodeID, bool) {}

// UnknownGroup implements Observer.
func (NoObserver) UnknownGroup(uint64, uint64, NodeID) {}

// SnapshotSent implements Observer.
func (NoObserver) SnapshotSent(uint64, uint64, error) {}

// SnapshotInstalled implements Observer.
func (NoObserver) SnapshotInstalled(uint64, uint64) {}

// Truncated implements Observer.
func (NoObserver) Truncated(uint64, uint64) {}

// Dropped implements Observer.
func (NoObserver) Dropped(string, int) {}

// Failed implements Observer.
func (NoObserver) Failed(error) {}
