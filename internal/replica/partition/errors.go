// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// ErrClosed means that the replica or its host is closed. Nothing was done.
var ErrClosed = errors.New("replica is closed")

// ErrStopped means that the node's store failed and rejects all writes until the process restarts. It is unknown
// whether a write with this error survives.
var ErrStopped = errors.New("store stopped after a disk error")

// ErrStaleSchema means that a mutation was planned for an older revision of its table than the replica requires, or
// that a read was planned with a dropped index. Nothing was written. The caller may plan the statement again and repeat
// it.
var ErrStaleSchema = errors.New("the statement was planned for an older revision of the table")

// WrongRange means that a command does not, or not completely, belong to this replica: the sender's topology is
// outdated. Nothing was done.
type WrongRange struct {
	Partition topology.PartitionID
	// Have is the span of the replica, at Epoch.
	Have  topology.Span
	Epoch uint64
	// Moved is the partition that took over the requested data, or 0 if unknown.
	Moved topology.PartitionID
}

func (e *WrongRange) Error() string {
	return fmt.Sprintf("partition %d has only %s at epoch %d", e.Partition, e.Have, e.Epoch)
}

// LatchTimeout means that a write waited too long for other writes to its logical partition, or that its context ended.
// Nothing was done.
type LatchTimeout struct{ Cause error }

func (e *LatchTimeout) Error() string {
	return "waited too long for a partition key: " + e.Cause.Error()
}
func (e *LatchTimeout) Unwrap() error { return e.Cause }

// NotLeader means that a command must be sent to the leader of the partition, and this replica does not lead or is not
// sure. Nothing was done.
type NotLeader struct {
	Partition topology.PartitionID
	// Leader is the node that leads, as far as this replica knows, or zero.
	Leader topology.NodeID
}

func (e *NotLeader) Error() string {
	return fmt.Sprintf("this replica is not the leader of partition %d", e.Partition)
}

// ErrUncertain means that this node does not know whether the write was, or will be, applied. The same command may be
// sent again with the same ID.
var ErrUncertain = errors.New("the outcome of the write is unknown")

// ErrInProgress means that a command with the same ID is already in progress. It may be sent again to learn the
// outcome.
var ErrInProgress = errors.New("the same command is already in progress")

// DedupeUnknown rejects a first attempt from another node that does not know an epoch at or after the start of this
// replica's dedupe window. The replica does not know whether a later attempt was applied before the window started.
// Nothing was done. A sender that has made no other attempt may send the command again, knowing Epoch.
type DedupeUnknown struct{ Epoch uint64 }

func (e *DedupeUnknown) Error() string {
	return "this replica has started its dedupe state after the last response to the sender"
}

// ErrUnconfirmed means that rows were passed on, and that the replica could not confirm afterward that it still led.
// The rows must not be used.
var ErrUnconfirmed = errors.New("the read could not be confirmed")

// Conflict means that the records to be changed are not at the expected version. Nothing was done.
type Conflict struct{ Version uint64 }

func (e *Conflict) Error() string { return fmt.Sprintf("the metadata is at version %d", e.Version) }
