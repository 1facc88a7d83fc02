// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Config is the Raft configuration of a replica set outside of a joint change.
type Config struct{ Voters, Learners []topology.ReplicaID }

// Change is a joint change of a Config.
type Change struct {
	// Learn lists the replicas to add as learners. Promote lists the learners to promote to voters.
	Learn, Promote []topology.Replica
	// Remove lists the voters and learners to remove.
	Remove []topology.ReplicaID
}

// Plan returns the leader's next change that brings a set's configuration closer to the topology. ready reports whether
// a learner has caught up. The result contains only changes that are safe now, and may be empty. The leader calls Plan
// again when a learner is ready or the topology has changed. Before each call, the leader records unknown voters with
// topology.Snapshot.RecordVoters. Plan maintains the permitted numbers of voters (PL2), and a leaving voter waits for
// its joining replacement (PL3).
func Plan(set *topology.ReplicaSet, now Config, ready func(topology.ReplicaID) bool) Change {
	var c Change
	for _, m := range set.Replicas {
		joins := m.State == topology.Joining || m.State == topology.Learner
		if joins && !slices.Contains(now.Voters, m.ID) && !slices.Contains(now.Learners, m.ID) {
			c.Learn = append(c.Learn, m)
		}
	}
	for _, id := range now.Learners {
		if m := set.Member(id); m == nil || m.State == topology.Leaving {
			c.Remove = append(c.Remove, id)
		}
	}
	// A voter that is not in the topology is normally newer than this node's topology, because Raft removes a voter
	// before the topology does. If the set has a newer replica than the voter, the topology has removed the voter while
	// it was a learner, and a leader with an older topology has promoted it.
	var leaving []topology.ReplicaID
	for _, id := range now.Voters {
		if m := set.Member(id); m != nil && m.State == topology.Leaving || m == nil && id < youngest(set) {
			leaving = append(leaving, id)
		}
	}
	joining := 0
	var caughtUp []topology.Replica
	for _, m := range set.Replicas {
		if m.State != topology.Joining || slices.Contains(now.Voters, m.ID) {
			continue
		}
		joining++
		if slices.Contains(now.Learners, m.ID) && ready(m.ID) {
			caughtUp = append(caughtUp, m)
		}
	}
	promote, remove := exchange(len(now.Voters), len(leaving), joining, len(caughtUp))
	c.Promote = append(c.Promote, caughtUp[:promote]...)
	c.Remove = append(c.Remove, leaving[:remove]...)
	return c
}

// youngest returns the highest replica ID in a set. IDs are assigned in ascending order across all partitions.
func youngest(set *topology.ReplicaSet) (id topology.ReplicaID) {
	for i := range set.Replicas {
		id = max(id, set.Replicas[i].ID)
	}
	return id
}

// exchange returns the number of learners to promote and the number of voters to remove at the same time. joining is
// the number of replicas that will become voters. caughtUp is the number of ready replicas among the joining replicas.
func exchange(voters, leaving, joining, caughtUp int) (promote, remove int) {
	free := max(0, leaving-joining) // leaving voters without a replacement
	for promote = min(caughtUp, max(0, Replicas-(voters-leaving))); promote >= 0; promote-- {
		for remove = min(leaving, promote+free); remove >= 0; remove-- {
			if allowed(voters, voters+promote-remove) {
				return promote, remove
			}
		}
	}
	return 0, 0
}

// allowed reports whether a set may change from one number of voters to another (PL2).
func allowed(from, to int) bool {
	switch {
	case to == from:
		return true
	case to < 1 || to == 2 || to > max(Replicas, from):
		return false
	}
	return to >= min(from, 3)
}

// PreferredLeader returns the voter that should lead a set, or 0. It is the first voter in order whose node may lead.
// If no such voter exists, it is any other voter whose node may lead. order is the result of Ring.LeaderOrder.
func PreferredLeader(set *topology.ReplicaSet, order []topology.NodeID,
	may func(topology.NodeID) bool) topology.ReplicaID {
	for _, node := range order {
		if m := set.On(node); m != nil && m.State == topology.Voter && may(node) {
			return m.ID
		}
	}
	for _, state := range []topology.MemberState{topology.Voter, topology.Leaving} {
		for _, m := range set.Replicas {
			if m.State == state && may(m.Node) {
				return m.ID
			}
		}
	}
	return 0
}
