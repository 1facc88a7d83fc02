// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// retryReason classifies the outcome of an attempt. The retry decision depends on this classification.
type retryReason uint8

// An attempt that ends with notLeader, moved, unreachable, busy, or dedupeUnknown had no effect. An attempt that ends
// with unknown may have had an effect. final means that the error is returned to the client.
const (
	final retryReason = iota
	notLeader
	moved
	unreachable
	busy
	dedupeUnknown
	unconfirmed
	unknown
	throttled

	reasonCount
)

// RetryReasons counts failed attempts by reason.
type RetryReasons struct {
	// NotLeader counts attempts on replicas that were not the leader. Moved counts attempts on replicas that were
	// removed or that contain another range. Unreachable counts attempts on nodes that could not be reached. Busy
	// counts attempts rejected because a replica or a connection was at a limit. DedupeUnknown counts attempts on
	// replicas that did not know whether the command had been applied before. These attempts had no effect.
	NotLeader, Moved, Unreachable, Busy, DedupeUnknown uint64
	// Unconfirmed counts reads whose rows could not be confirmed and were discarded. Unknown counts attempts with an
	// unknown outcome.
	Unconfirmed, Unknown uint64
	// Throttled counts attempts on partitions that had exceeded their throughput. These attempts had no effect.
	Throttled uint64
}

func (s *stats) retryReasons() RetryReasons {
	n := func(r retryReason) uint64 { return s.reasons[r].Load() }
	return RetryReasons{
		NotLeader: n(notLeader), Moved: n(moved), Unreachable: n(unreachable), Busy: n(busy),
		DedupeUnknown: n(dedupeUnknown),
		Unconfirmed:   n(unconfirmed), Unknown: n(unknown), Throttled: n(throttled),
	}
}

// classify returns the class of a replica's error and the leader that the error contains.
func classify(err error) (retryReason, topology.NodeID) {
	if e, ok := errors.AsType[*partition.NotLeader](err); ok {
		return notLeader, e.Leader
	}
	if _, ok := errors.AsType[*partition.WrongRange](err); ok {
		return moved, topology.NodeID{}
	}
	if _, ok := errors.AsType[*partition.LatchTimeout](err); ok {
		return busy, topology.NodeID{}
	}
	if _, ok := errors.AsType[*partition.DedupeUnknown](err); ok {
		return dedupeUnknown, topology.NodeID{}
	}
	return classifySentinel(err), topology.NodeID{}
}

func classifySentinel(err error) retryReason {
	switch {
	case errors.Is(err, partition.ErrUncertain), errors.Is(err, partition.ErrInProgress),
		errors.Is(err, transport.ErrLost),
		errors.Is(err, context.DeadlineExceeded):
		return unknown
	case errors.Is(err, partition.ErrUnconfirmed):
		return unconfirmed
	case errors.Is(err, partition.ErrClosed), errors.Is(err, errNoReplica):
		return moved
	case errors.Is(err, transport.ErrUnreachable), errors.Is(err, transport.ErrClosed):
		return unreachable
	case errors.Is(err, transport.ErrBusy):
		return busy
	}
	return final
}

// ErrRepeat is returned for a read that has delivered invalid rows, or that has delivered rows and cannot continue. The
// caller must discard the rows and restart the read.
var ErrRepeat = errors.New("the read must be restarted")

// quorum returns the number of voters in a replica set that a read or write needs. For a nil set, quorum returns one.
func quorum(set *topology.ReplicaSet) int {
	if set == nil {
		return 1
	}
	return topology.Quorum(set.Voters())
}

// alive returns the number of voters in a replica set that are up. set may be nil.
func (cl *cluster) alive(set *topology.ReplicaSet) int {
	if set == nil {
		return 0
	}
	n := 0
	for i := range set.Replicas {
		if r := &set.Replicas[i]; r.State.Votes() && (r.Node == cl.Node || cl.isAlive(r.Node)) {
			n++
		}
	}
	return n
}

func overloaded(err error) bool {
	_, ok := errors.AsType[*dberr.Overloaded](err)
	return ok
}

func inProgress(err error) bool { return errors.Is(err, partition.ErrInProgress) }
