// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// ErrClosed means that the replica or its host is closed. The command had no effect.
var ErrClosed = errors.New("replica is closed")

// ErrStopped means that the node's store has failed and rejects all writes until the process restarts. A write that
// fails with ErrStopped may or may not survive.
var ErrStopped = errors.New("store stopped after a disk error")

// ErrStaleSchema means that a mutation was planned for a table revision older than the replica requires, or that a read
// was planned with a dropped index. The command had no effect. The caller may plan the statement again and retry it.
var ErrStaleSchema = errors.New("the statement was planned for an older revision of the table")

// WrongRange means that at least a part of a command does not belong to this replica, because the sender's topology is
// outdated. The command had no effect.
type WrongRange struct {
	Partition topology.PartitionID
	// Have is the span of the replica, at Epoch.
	Have  topology.Span
	Epoch uint64
	// Moved is the partition that has taken over the requested data, or 0 if that partition is unknown.
	Moved topology.PartitionID
}

func (e *WrongRange) Error() string {
	return fmt.Sprintf("partition %d has only %s at epoch %d", e.Partition, e.Have, e.Epoch)
}

// LatchTimeout means that a write waited too long for other writes to its logical partition, or that the context ended.
// The write had no effect.
type LatchTimeout struct{ Cause error }

func (e *LatchTimeout) Error() string {
	return "waited too long for a partition key: " + e.Cause.Error()
}
func (e *LatchTimeout) Unwrap() error { return e.Cause }

// NotLeader means that a command requires the leader, and this replica does not lead or cannot confirm that it leads.
// The command had no effect.
type NotLeader struct {
	Partition topology.PartitionID
	// Leader is the node that leads according to this replica, or zero if no leader is known.
	Leader topology.NodeID
}

func (e *NotLeader) Error() string {
	return fmt.Sprintf("this replica is not the leader of partition %d", e.Partition)
}

// ErrUncertain means that this node does not know whether the write has been or will be applied. The sender may send
// the same command again with the same ID.
var ErrUncertain = errors.New("the outcome of the write is unknown")

// ErrInProgress means that a command with the same ID is already in progress. The sender may send the command again to
// learn the outcome.
var ErrInProgress = errors.New("the same command is already in progress")

// DedupeUnknown rejects a first attempt whose sender does not know an epoch at or after the start of this replica's
// dedupe window. The replica does not know whether a later attempt was applied before the start of the window. The
// command had no effect. A sender that has made no other attempt may send the command again with Epoch.
type DedupeUnknown struct{ Epoch uint64 }

func (e *DedupeUnknown) Error() string {
	return "this replica has started its dedupe state after the last response to the sender"
}

// ErrUnconfirmed means that the replica returned rows and could not confirm afterward that it still led. The caller
// must discard the rows.
var ErrUnconfirmed = errors.New("the read could not be confirmed")

// Conflict means that the records to change do not have the expected version. The change had no effect.
type Conflict struct{ Version uint64 }

func (e *Conflict) Error() string { return fmt.Sprintf("the metadata is at version %d", e.Version) }
