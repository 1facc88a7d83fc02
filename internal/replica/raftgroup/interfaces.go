// SPDX-License-Identifier: Apache-2.0

package raftgroup

import (
	"io"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Log stores the entries of all groups. Package raftlog implements it.
type Log interface {
	// Storage returns the log of a group, including all committed batches. It is safe for concurrent use with batches.
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
	// Install records that a snapshot at index is about to be installed. Until a Reset, the state may be ahead of the
	// log.
	Install(group, index uint64) error
	// Reset replaces the log with an empty log that starts after (index, term).
	Reset(group, index, term uint64, members *pb.ConfState) error
	// Create is like Reset, and also writes a hard state, for a group without any record. If the group has a record,
	// Create does nothing and returns false. If the group existed before and has no record, its votes and
	// acknowledgments have been lost.
	Create(group, index, term uint64, members *pb.ConfState) (bool, error)
	Destroy(group uint64) error
	// Commit writes the batch. With sync, the batch and all earlier commits are durable when Commit returns.
	Commit(sync bool) error
}

// StateMachine applies entries. One goroutine calls Apply, Members, Commit, and Sync. An error from any of them stops
// the host.
type StateMachine interface {
	// Apply adds an entry to the open batch. It adds the entry's commands in order, and stores (index, term) as the
	// group's applied index. The index is the previous index plus one. Apply appends one result per command to results.
	// The results are passed to the proposer's Waiter unchanged. It must not keep commands or results.
	Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error)
	// Members adds a membership change to the open batch. index is the index of its entry. where contains the encoded
	// nodes of the members (see DecodeMembers).
	Members(group, index, term uint64, members *pb.ConfState, where []byte) error
	// Commit writes the open batch and starts the next batch. The batch is visible to readers when Commit returns, but
	// not yet durable.
	Commit() error
	// Sync makes all earlier commits durable.
	Sync() error
}

// SnapshotStore creates snapshots of a state machine's groups, stores received snapshots, and installs them. It is safe
// for concurrent use. Snapshot and Install are not called concurrently for one group.
type SnapshotStore interface {
	// Snapshot captures the current state of a group. metadata describes exactly the captured state. The caller must
	// close data.
	Snapshot(group uint64) (metadata *pb.SnapshotMetadata, data SnapshotData, err error)
	// Receive stores an incoming snapshot on disk instead of in memory until it is closed. The snapshot may be
	// installed, or discarded if it has become obsolete. The state of the group does not change. Receive reads to
	// io.EOF. The stream must return io.EOF only if every byte is correct. Files that remain when the process ends must
	// be removed at the next start.
	Receive(group uint64, r io.Reader) (SnapshotData, error)
	// Install durably replaces the group's state with a snapshot returned by Receive. No entry is applied to the group
	// in the meantime. The caller closes data in any case.
	Install(group uint64, metadata *pb.SnapshotMetadata, data SnapshotData) error
}

// SnapshotData is the data of a snapshot, without its metadata. It is kept until Close.
type SnapshotData interface {
	io.ReaderAt
	Size() int64
	Close() error
}

// Transport sends frames to other nodes. Frames may be lost. Frames from one sender to one receiver are not reordered.
// It is safe for concurrent use.
type Transport interface {
	// Send queues a copy of the frame and returns immediately. It returns false if the frame was dropped because the
	// peer's queue is full.
	Send(to NodeID, frame []byte) bool
	// SendSnapshot delivers head, followed by size bytes of data, to Runner.ReceiveSnapshot on the receiver, and
	// returns its result. It limits the rate and must not delay frames.
	SendSnapshot(to NodeID, head []byte, data io.ReaderAt, size int64) error
}

// Waiter receives the outcome of a proposal or a read exactly once. Done is called on the loop and must not block.
type Waiter interface{ Done(Outcome) }

// Outcome is the outcome of a proposal or a read.
type Outcome struct {
	// Err is nil on success. ErrUnknown means that a proposal may have been applied or may be applied later. Any other
	// error means that the request had no effect and will have none.
	Err error
	// Index and Term identify the proposal's entry. For a read, Index is the index that had to be applied.
	Index, Term uint64
	// Result is the result of the state machine for the proposal.
	Result any
}

// Member is a replica and its node.
type Member struct {
	Replica uint64
	Node    NodeID
}

// Observer is notified of events for logging, counting, and reacting. Its methods are called from within the steps and
// must not block. An implementation that embeds NoObserver needs only the methods for the events that it uses.
type Observer interface {
	// LeaderChanged is called when the group follows leader in term. Its Replica is 0 if the group has no leader, and
	// its Node is zero while the node is unknown.
	LeaderChanged(group uint64, leader Member, term uint64)
	// Quiesced is called when the group becomes quiescent or wakes.
	Quiesced(group uint64, quiet bool)
	// PeerDown is called when no frame was received from the node for an election timeout, and again when the node is
	// back.
	PeerDown(node NodeID, down bool)
	// UnknownGroup is called for a message to a group that has no replica on this node, or to a newer replica than the
	// replica on this node.
	UnknownGroup(group, replica uint64, from NodeID)
	// SnapshotSent and SnapshotInstalled are called with the result of a transfer or an installation.
	SnapshotSent(group, to uint64, err error)
	SnapshotInstalled(group, index uint64)
	// Truncated is called when the log starts after index.
	Truncated(group, index uint64)
	// Dropped is called when n messages were dropped because a limit in Options was reached.
	Dropped(limit string, n int)
	// Failed is called when the runner stopped because of err.
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
