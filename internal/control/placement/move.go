// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// DefaultHold is for how long balance leaves a partition alone that was moved by hand.
const DefaultHold = time.Hour

// Move is an order to have the replica of a partition that is on one node on another one.
type Move struct {
	Table     uint32
	Partition topology.PartitionID
	From, To  topology.NodeID
	// Hold is for how long the partition stays where it is then; 0 is HoldMoved.
	Hold time.Duration
}

// Apply returns the state in which the move is ordered, as a wish of the partition, or says why it cannot be. Schedule
// begins it, with no more changes at a time than of other kinds.
func (o *Move) Apply(s *meta.State, view *View) (*meta.State, error) {
	p := s.Topology.Partition(o.Partition)
	if p == nil || p.Table != o.Table || p.ID == topology.MetaPartition || len(p.Sets) == 0 {
		return nil, fmt.Errorf("the table has no partition %d: see ilion partitions", o.Partition)
	}
	set := &p.Sets[0]
	from, to := set.On(o.From), set.On(o.To)
	switch {
	case p.Split != nil:
		return nil, fmt.Errorf("partition %d is being split: try again when it has", p.ID)
	case p.Merge != nil:
		return nil, fmt.Errorf("partition %d is being merged: try again when that is over", p.ID)
	case from == nil || from.State == topology.Learner:
		return nil, fmt.Errorf("partition %d has no replica on node %s that could move: see ilion partitions", p.ID,
			o.From.Short())
	case to != nil && to.State != topology.Learner:
		return nil, fmt.Errorf("partition %d has a replica on node %s already, and a node holds one of each", p.ID,
			o.To.Short())
	case !p.AtRest():
		return nil, fmt.Errorf("the replicas of partition %d are being changed: try again when they are at rest", p.ID)
	}
	if err := view.checkTarget(s.Node(o.To), o.To); err != nil {
		return nil, err
	}
	nodes := votersOf(set)
	nodes[slices.Index(nodes, o.From)] = o.To
	hold := o.Hold
	if hold <= 0 {
		hold = DefaultHold
	}
	m, err := s.Topology.WithPin(p.ID, &topology.PlacementPin{Nodes: nodes, Until: view.Now.Add(hold).UnixMilli()})
	if err != nil {
		return nil, err
	}
	return s.WithTopology(m), nil
}

// MoveDone reports whether a move is done as far as the map knows.
func MoveDone(p *topology.Partition, o *Move) bool {
	to, from := p.Sets[0].On(o.To), p.Sets[0].On(o.From)
	return to != nil && to.State == topology.Voter && (from == nil || from.State == topology.Learner)
}

// checkTarget says why a node cannot be given a replica now.
func (v *View) checkTarget(n *meta.Node, id topology.NodeID) error {
	switch {
	case n == nil || n.State == meta.Left:
		return fmt.Errorf("node %s is no member of the cluster: see ilion status", id.Short())
	case n.State != meta.Up:
		return fmt.Errorf("node %s is %s and takes no replicas", id.Short(), n.State)
	case v.down(id):
		return fmt.Errorf("node %s does not answer", id.Short())
	case !v.takes(n):
		return fmt.Errorf("node %s has less than %d %% of its disk free and takes no replicas", id.Short(), FreeMin)
	}
	return nil
}

// votersOf lists the nodes of those that vote or are to vote, and stay.
func votersOf(set *topology.ReplicaSet) (nodes []topology.NodeID) {
	for _, m := range set.Replicas {
		if m.State == topology.Voter || m.State == topology.Joining {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// Colocate returns a map in which the replicas of one partition, other, are wanted on the nodes of its neighbour, and
// those of that, stay, remain where they are, until an instant: the two are to be merged. Schedule moves them one after
// the other; Together says when they are there. The wishes end by themselves, with the merge or its recall, or by
// topology.Snapshot.WithWish.
func Colocate(m *topology.Snapshot, fixed, moving topology.PartitionID, cause topology.Cause, until time.Time) (
	*topology.Snapshot, error) {
	l, r := m.Partition(fixed), m.Partition(moving)
	if l == nil || r == nil || l.Table != r.Table || len(l.Sets) == 0 || len(r.Sets) == 0 {
		return nil, fmt.Errorf("there are no partitions %d and %d of one table", fixed, moving)
	}
	if !l.AtRest() {
		return nil, fmt.Errorf("the replicas of partition %d are being changed: try again when they are at rest", fixed)
	}
	nodes := votersOf(&l.Sets[0])
	if len(nodes) == 0 || len(votersOf(&r.Sets[0])) != len(nodes) {
		return nil, errors.New("the two have not as many replicas as each other: try again when they have")
	}
	w := topology.PlacementPin{Nodes: nodes, Until: until.UnixMilli(), MergeWith: moving, Cause: cause}
	m, err := m.WithPin(fixed, &w)
	if err != nil {
		return nil, err
	}
	w.MergeWith = fixed
	return m.WithPin(moving, &w)
}

// Colocated reports whether the replicas of two partitions are at rest on the same nodes.
func Colocated(l, r *topology.Partition) bool {
	return l.AtRest() && r.AtRest() && topology.Colocated(l, r)
}
