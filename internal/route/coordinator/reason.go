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

// reason is what an attempt at a replica ended with, as far as asking again goes.
type reason uint8

// The reasons. What ends in notLeader, moved, unreachable, busy and forgotten was not done; what ends in
// unknown may have been. final is an answer.
const (
	final reason = iota
	notLeader
	moved
	unreachable
	busy
	forgotten
	unconfirmed
	unknown
	throttled

	reasonCount
)

// RetryReasons counts requests that were asked again, by what the attempt before ended with.
type RetryReasons struct {
	// NotLeader: the replica did not lead. Moved: it is not there, or holds another range. Unreachable: its node is.
	// Busy: a bound of it, or of the connection to it, was reached. Forgotten: it cannot know whether the command was
	// carried out before. Nothing was done by any of these.
	NotLeader, Moved, Unreachable, Busy, Forgotten uint64
	// Unconfirmed: what was read could not be confirmed, and was dropped. Unknown: nobody said how it ended.
	Unconfirmed, Unknown uint64
	// Throttled: the partition had spent what it may take. Nothing was done.
	Throttled uint64
}

func (s *stats) retryReasons() RetryReasons {
	n := func(r reason) uint64 { return s.reasons[r].Load() }
	return RetryReasons{
		NotLeader: n(notLeader), Moved: n(moved), Unreachable: n(unreachable), Busy: n(busy),
		Forgotten:   n(forgotten),
		Unconfirmed: n(unconfirmed), Unknown: n(unknown), Throttled: n(throttled),
	}
}

// reasonOf says what an error of a replica means, and whom it names as the leader.
func reasonOf(err error) (reason, topology.NodeID) {
	if e, ok := errors.AsType[*partition.NotLeader](err); ok {
		return notLeader, e.Leader
	}
	if _, ok := errors.AsType[*partition.WrongRange](err); ok {
		return moved, topology.NodeID{}
	}
	if _, ok := errors.AsType[*partition.LatchTimeout](err); ok {
		return busy, topology.NodeID{}
	}
	if _, ok := errors.AsType[*partition.Forgotten](err); ok {
		return forgotten, topology.NodeID{}
	}
	return reasonOfSentinel(err), topology.NodeID{}
}

func reasonOfSentinel(err error) reason {
	switch {
	case errors.Is(err, partition.ErrUncertain), errors.Is(err, partition.ErrUnderWay),
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

// ErrRepeat is returned for a read that has passed rows on which turned out to be of no use, or cannot be gone on with:
// the caller drops them and begins it again.
var ErrRepeat = errors.New("the read has to be repeated as a whole")

// quorum is how many of a partition's voters a write or a read needs.
func quorum(p *topology.Partition) int {
	if len(p.Sets) == 0 {
		return 1
	}
	return topology.Quorum(p.Sets[0].Voters())
}

// alive is how many of them are up.
func (cl *cluster) alive(p *topology.Partition) int {
	if len(p.Sets) == 0 {
		return 0
	}
	n := 0
	for i := range p.Sets[0].Replicas {
		if r := &p.Sets[0].Replicas[i]; r.State.Votes() && (r.Node == cl.Node || cl.Alive(r.Node)) {
			n++
		}
	}
	return n
}

func overloaded(err error) bool {
	_, ok := errors.AsType[*dberr.Overloaded](err)
	return ok
}

func underWay(err error) bool { return errors.Is(err, partition.ErrUnderWay) }
