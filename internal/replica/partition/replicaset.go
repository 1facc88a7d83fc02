// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// replicaSet is the replica set of a partition as known to one of the replicas.
type replicaSet struct {
	id  topology.PartitionID
	seq sequencer
}

// ID returns the ID of the physical partition.
func (s *replicaSet) ID() topology.PartitionID { return s.id }

func (s *replicaSet) isMeta() bool { return s.id == topology.MetaPartition }

// Leading reports whether this replica leads and may evaluate commands. The result may already be outdated.
func (s *replicaSet) Leading() bool { return s.seq.evaluating() != 0 }

// Leader returns the node of the leader according to this replica. ok is false if the replica knows no leader.
func (s *replicaSet) Leader() (node topology.NodeID, ok bool) {
	m, ok := s.seq.leader()
	return m.Node, ok
}

// Applied returns the index of the last entry that readers can see. It returns 0 if the replica waits for its first
// snapshot.
func (s *replicaSet) Applied() uint64 { return s.seq.applied() }

// evaluating returns the term in which this replica leads and has applied all entries of previous terms. It returns
// *NotLeader if the replica does not lead.
func (s *replicaSet) evaluating() (term uint64, err error) {
	if term = s.seq.evaluating(); term == 0 {
		return 0, s.notLeader()
	}
	return term, nil
}

func (s *replicaSet) notLeader() error {
	node, _ := s.Leader()
	return &NotLeader{Partition: s.id, Leader: node}
}

// ended returns the error of a proposal. If the log has rejected the proposal, the outcome's result contains the error.
func (s *replicaSet) ended(o raftgroup.Outcome) error {
	switch {
	case o.Err == nil:
		err, _ := o.Result.(error)
		return err
	case errors.Is(o.Err, raftgroup.ErrUnknown):
		return ErrUncertain
	}
	return s.refused(o.Err)
}

// refused converts an error of the sequencer for a command that had no effect.
func (s *replicaSet) refused(err error) error {
	var bound *raftgroup.LimitError
	switch {
	case errors.As(err, &bound) && bound.Bound == "ProposalBytes":
		return &dberr.Invalid{Message: "The mutation exceeds the maximum size of a log entry"}
	case errors.As(err, &bound):
		return &dberr.Overloaded{Message: "Too many requests are waiting for the partition's log"}
	case errors.Is(err, raftgroup.ErrNotLeader), errors.Is(err, raftgroup.ErrStaleTerm),
		errors.Is(err, raftgroup.ErrReadTimeout):
		return s.notLeader()
	case errors.Is(err, raftgroup.ErrClosed):
		return ErrClosed
	}
	return err
}
