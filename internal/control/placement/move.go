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

// DefaultHold is the time for which balance does not move a partition after an operator has moved it.
const DefaultHold = time.Hour

// Move is a request to move a partition's replica from one node to another.
type Move struct {
	Table     uint32
	Partition topology.PartitionID
	From, To  topology.NodeID
	// Hold is the time for which balance does not move the partition after this move. The default is DefaultHold.
	Hold time.Duration
}

// Apply returns the state with the move as a placement pin, or an error if the move is not possible. Schedule starts
// the move within the limit of concurrent changes.
func (o *Move) Apply(s *meta.State, view *View) (*meta.State, error) {
	p := s.Topology.Partition(o.Partition)
	if p == nil || p.Table != o.Table || p.ID == topology.MetaPartition || len(p.Sets) == 0 {
		return nil, fmt.Errorf("the table has no partition %d. Run \"ilion partition list\" to list its partitions",
			o.Partition)
	}
	set := p.SetOn(o.From)
	if set == nil {
		set = &topology.ReplicaSet{} // the code below returns the error
	}
	from, to, target := set.On(o.From), set.On(o.To), s.Node(o.To)
	switch {
	case p.Split != nil:
		return nil, fmt.Errorf("partition %d is being split: retry when the split has finished", p.ID)
	case p.Merge != nil:
		return nil, fmt.Errorf("partition %d is being merged: retry when the merge has finished", p.ID)
	case from == nil || from.State == topology.Learner:
		return nil, fmt.Errorf("partition %d has no voting replica on node %s. Run \"ilion partition list\" to list "+
			"its replicas", p.ID,
			o.From.Short())
	case to != nil && to.State != topology.Learner:
		return nil, fmt.Errorf("partition %d already has a replica on node %s", p.ID,
			o.To.Short())
	case !p.AtRest():
		return nil, fmt.Errorf("the replica set of partition %d is changing: retry later", p.ID)
	case target != nil && target.Region != set.Region:
		return nil, fmt.Errorf("node %s is in region %q, but the replica on node %s is in region %q: specify a node of "+
			"region %q", o.To.Short(), target.Region, o.From.Short(), set.Region, set.Region)
	}
	if err := view.checkTarget(target, o.To); err != nil {
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

// MoveDone reports whether a move is complete in the topology.
func MoveDone(p *topology.Partition, o *Move) bool {
	set := p.SetOn(o.To)
	if set == nil {
		return false
	}
	to, from := set.On(o.To), set.On(o.From)
	return to != nil && to.State == topology.Voter && (from == nil || from.State == topology.Learner)
}

// checkTarget returns an error if a node cannot take a replica now.
func (v *View) checkTarget(n *meta.Node, id topology.NodeID) error {
	switch {
	case n == nil || n.State == meta.Left:
		return fmt.Errorf("node %s is not a member of the cluster. Run \"ilion status\" to list the nodes", id.Short())
	case n.State != meta.Up:
		return fmt.Errorf("node %s is %s and cannot take replicas", id.Short(), n.State)
	case v.down(id):
		return fmt.Errorf("node %s is down", id.Short())
	case !v.takes(n):
		return fmt.Errorf("node %s has less than %d%% free disk space and cannot take replicas", id.Short(), FreeMin)
	}
	return nil
}

// votersOf returns the nodes of the members that are or will become voters and are not leaving.
func votersOf(set *topology.ReplicaSet) (nodes []topology.NodeID) {
	for _, m := range set.Replicas {
		if m.State == topology.Voter || m.State == topology.Joining {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// Colocate returns a topology in which the replicas of the moving partition are pinned to the nodes of the fixed
// partition until a deadline. The replicas of the fixed partition are pinned to their current nodes. Schedule then
// moves the replicas one by one. The merge, its cancellation, or topology.Snapshot.WithPin removes the pins.
func Colocate(m *topology.Snapshot, fixed, moving topology.PartitionID, cause topology.Cause, until time.Time) (
	*topology.Snapshot, error) {
	l, r := m.Partition(fixed), m.Partition(moving)
	if l == nil || r == nil || l.Table != r.Table || len(l.Sets) == 0 || len(r.Sets) == 0 {
		return nil, fmt.Errorf("partitions %d and %d do not belong to the same table", fixed, moving)
	}
	if !l.AtRest() {
		return nil, fmt.Errorf("the replica set of partition %d is changing: retry later", fixed)
	}
	if len(l.Sets) != len(r.Sets) {
		return nil, fmt.Errorf("partitions %d and %d do not have replicas in the same regions", fixed, moving)
	}
	var nodes []topology.NodeID
	for i := range l.Sets {
		there, other := votersOf(&l.Sets[i]), r.Set(l.Sets[i].Region)
		if other == nil || len(there) == 0 || len(votersOf(other)) != len(there) {
			return nil, errors.New("the two partitions have different numbers of replicas: retry later")
		}
		nodes = append(nodes, there...)
	}
	w := topology.PlacementPin{Nodes: nodes, Until: until.UnixMilli(), MergeWith: moving, Cause: cause}
	m, err := m.WithPin(fixed, &w)
	if err != nil {
		return nil, err
	}
	w.MergeWith = fixed
	return m.WithPin(moving, &w)
}

// Colocated reports whether the replicas of two partitions are on the same nodes and no change is in progress.
func Colocated(l, r *topology.Partition) bool {
	return l.AtRest() && r.AtRest() && topology.Colocated(l, r)
}
