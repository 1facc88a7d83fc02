// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Reason is the reason for an action. Smaller values are more urgent.
type Reason uint8

// These are the reasons for actions.
const (
	Repair  Reason = iota // a change that cannot be completed
	Replace               // a node has been down for too long
	Grow                  // the region has enough nodes for more replicas
	Leave                 // a node is leaving
	Pinned                // an active placement pin requires it
	Balance               // the ring or the load requires it
)

var reasons = [...]string{"repair", "heal", "grow", "leave", "order", "balance"}

// causes maps reasons to the causes in the topology.
var causes = [...]topology.Cause{topology.ToRepair, topology.ToHeal, topology.ToGrow, topology.ToLeave,
	topology.ByOperator, topology.ToBalance}

// String returns the name of the reason in lower case.
func (w Reason) String() string { return reasons[w] }

// Kind is the kind of a step.
type Kind uint8

// These are the kinds of steps. Each step is a transition of the topology.
const (
	Add        Kind = iota // add a replica on Node that will become a voter
	AddLearner             // add a replica on Node that stays a learner
	Promote                // make Replica a voter; it is a learner or a leaving voter
	Demote                 // make the joining Replica a learner
	Remove                 // remove Replica
	Unpin                  // delete the expired pin of the partition
	SetLeader              // set the preferred leader to Node, or remove the preference if Node is zero
)

var kinds = [...]string{"add", "watch", "join", "learn", "go", "forget", "lead"}

// Step is one transition of the topology.
type Step struct {
	Kind Kind
	// Node is the node of the replica.
	Node topology.NodeID
	// Replica is the ID of the replica, or 0 if the step adds a replica.
	Replica topology.ReplicaID
}

// Action is a change of one replica set. All steps of an action are applied together.
type Action struct {
	Partition topology.PartitionID
	Region    string
	Reason    Reason
	Steps     []Step
}

// String describes the action for logs.
func (a Action) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "partition %d: %s:", a.Partition, a.Reason)
	for i, s := range a.Steps {
		if i > 0 {
			b.WriteByte(',')
		}
		if s.Kind == Unpin {
			b.WriteString(" delete the pin")
		} else if s.Kind == SetLeader && s.Node == (topology.NodeID{}) {
			b.WriteString(" led by the ring")
		} else if s.Kind == SetLeader {
			fmt.Fprintf(&b, " led by node %x", s.Node[:4])
		} else if s.Replica != 0 {
			fmt.Fprintf(&b, " %s replica %d on node %x", kinds[s.Kind], s.Replica, s.Node[:4])
		} else {
			fmt.Fprintf(&b, " %s a replica on node %x", kinds[s.Kind], s.Node[:4])
		}
	}
	return b.String()
}

// Apply applies the action to the topology.
func (a Action) Apply(m *topology.Snapshot, now time.Time) (*topology.Snapshot, error) {
	cause := causes[a.Reason]
	if p := m.Partition(a.Partition); a.Reason == Pinned && p != nil && p.Pin != nil && p.Pin.MergeWith != 0 {
		cause = topology.ToMerge
	}
	for _, s := range a.Steps {
		var err error
		switch s.Kind {
		case Add:
			m, _, err = m.AddMember(a.Partition, a.Region, s.Node, topology.Joining)
		case AddLearner:
			m, _, err = m.AddMember(a.Partition, a.Region, s.Node, topology.Learner)
		case Promote:
			m, err = m.Mark(a.Partition, s.Replica, topology.Joining)
		case Demote:
			m, err = m.Mark(a.Partition, s.Replica, topology.Learner)
		case Remove:
			m, err = m.Mark(a.Partition, s.Replica, topology.Leaving)
		case Unpin:
			m, err = m.WithPin(a.Partition, nil)
		case SetLeader:
			m, err = m.WithLead(a.Partition, s.Node)
		default:
			err = fmt.Errorf("unknown step %d", s.Kind)
		}
		if err != nil {
			return nil, err
		}
	}
	if p := m.Partition(a.Partition); p.AtRest() || a.Reason == Repair && p.Reason != nil {
		return m, nil // a repaired change keeps the original reason
	}
	return m.WithReason(a.Partition, topology.NewReason(cause, now)), nil
}

// Apply applies all actions to the topology.
func Apply(m *topology.Snapshot, actions []Action, now time.Time) (*topology.Snapshot, error) {
	for _, a := range actions {
		next, err := a.Apply(m, now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a, err)
		}
		m = next
	}
	return m, nil
}
