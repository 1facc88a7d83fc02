// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// ErrClosed says that the replica or its host is closed: nothing was done.
var ErrClosed = errors.New("replica is closed")

// ErrStopped says that the node's store failed and accepts no more writes until the process starts again. Whether the
// write that is told so survives is not known.
var ErrStopped = errors.New("store stopped after a disk error")

// ErrStaleSchema says that a mutation was planned for an older revision of its table than the replica requires, or that
// a read was planned with an index that has been dropped. Nothing was written; a caller that binds the statement again
// may repeat it.
var ErrStaleSchema = errors.New("planned for an older revision of the table")

// WrongRange says that a command is not, or not wholly, for this replica: the sender's map is old. Nothing was done.
type WrongRange struct {
	Partition topology.PartitionID
	// Have is what the replica holds, at Epoch.
	Have  topology.Span
	Epoch uint64
	// Moved names the partition that took over what was asked for, 0 if not known.
	Moved topology.PartitionID
}

func (e *WrongRange) Error() string {
	return fmt.Sprintf("partition %d holds %s at epoch %d only", e.Partition, e.Have, e.Epoch)
}

// LatchTimeout says that a write waited too long for others of its logical partition, or until its context ended.
// Nothing was done.
type LatchTimeout struct{ Cause error }

func (e *LatchTimeout) Error() string {
	return "waited too long for a partition key: " + e.Cause.Error()
}
func (e *LatchTimeout) Unwrap() error { return e.Cause }

// NotLeader says that a command is for the leader of the partition and this replica is not it, or is not sure. Nothing
// was done.
type NotLeader struct {
	Partition topology.PartitionID
	// Leader is the node that leads as far as this replica knows, zero if it knows none.
	Leader topology.NodeID
}

func (e *NotLeader) Error() string {
	return fmt.Sprintf("this replica does not lead partition %d", e.Partition)
}

// ErrUncertain says that nobody here knows whether the write was, or will be, applied. The same command with the same
// id may be sent again.
var ErrUncertain = errors.New("the outcome of the write is not known")

// ErrUnderWay says that the same command, by its id, is being carried out already. It may be sent again to hear how it
// ended.
var ErrUnderWay = errors.New("the same command is under way")

// Forgotten answers a first attempt of another node that knows nothing of the time in which this replica has begun to
// remember: it cannot be told whether a later attempt was applied before that. Nothing was done. A sender that made no
// other attempt may send the command anew, knowing Memory.
type Forgotten struct{ Memory uint64 }

func (e *Forgotten) Error() string {
	return "this replica has begun to remember writes after the sender heard from its node"
}

// ErrUnconfirmed says that rows were passed on and that the replica could not confirm afterwards that it still led.
// They must not be used.
var ErrUnconfirmed = errors.New("what was read could not be confirmed")

// Conflict answers a change of records whose expected version is not the present one. Nothing was done.
type Conflict struct{ Version uint64 }

func (e *Conflict) Error() string { return fmt.Sprintf("the records are at version %d", e.Version) }
