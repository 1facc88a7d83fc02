// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Reason an action is wanted; the smaller the more urgent.
type Reason uint8

// The reasons.
const (
	Repair  Reason = iota // a change that cannot end as it was begun
	Replace               // a node has been dead for too long
	Grow                  // there are nodes for more replicas
	Leave                 // a node was asked to leave
	Pinned                // an open wish says so
	Balance               // the ring says so
)

var reasons = [...]string{"repair", "heal", "grow", "leave", "order", "balance"}

// causes are what the map has for reasons.
var causes = [...]topology.Cause{topology.ToRepair, topology.ToHeal, topology.ToGrow, topology.ToLeave,
	topology.ByOperator, topology.ToBalance}

// String is the reason's name, lower case.
func (w Reason) String() string { return reasons[w] }

// Kind of a step.
type Kind uint8

// The kinds of steps, each a transition of the map.
const (
	Add        Kind = iota // a new replica on Node that is to vote
	AddLearner             // a new replica on Node that only learns
	Promote                // Replica, which learns or was to leave, is to vote
	Demote                 // Replica, which was joining, only learns
	Remove                 // Replica is to leave
	Unpin                  // the wish of the partition has ended
	SetLeader              // Node is to lead before those that the ring prefers; these alone if it is zero
)

var kinds = [...]string{"add", "watch", "join", "learn", "go", "forget", "lead"}

// Step is one transition.
type Step struct {
	Kind Kind
	// Node is that of the replica.
	Node topology.NodeID
	// Replica is 0 for one that the step makes.
	Replica topology.ReplicaID
}

// Action is one change of one replica set: all of its steps or none.
type Action struct {
	Partition topology.PartitionID
	Region    string
	Reason    Reason
	Steps     []Step
}

// String is the action in words, for logs.
func (a Action) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "partition %d: %s:", a.Partition, a.Reason)
	for i, s := range a.Steps {
		if i > 0 {
			b.WriteByte(',')
		}
		if s.Kind == Unpin {
			b.WriteString(" forget the order")
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

// Apply makes the action in the map, at a time.
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
			m, err = m.MarkJoining(a.Partition, s.Replica)
		case Demote:
			m, err = m.MarkLearner(a.Partition, s.Replica)
		case Remove:
			m, err = m.MarkLeaving(a.Partition, s.Replica)
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
		return m, nil // what is repaired keeps the reason for which it was begun
	}
	return m.WithReason(a.Partition, topology.NewReason(cause, now)), nil
}

// Apply makes all actions in the map.
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
