// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// Config is a Raft configuration of a replica set, outside of a joint one.
type Config struct{ Voters, Learners []topology.ReplicaID }

// Change is what to do to a Config, all of it in one joint change. Replicas are given with their nodes.
type Change struct {
	// Learn are to be added as learners, Promote are learners that become voters.
	Learn, Promote []topology.Replica
	// Remove are voters and learners that go.
	Remove []topology.ReplicaID
}

// Plan is what the leader of a set does next to bring its configuration to what the map wants. ready says of a learner
// that it has caught up. It does what can be done safely now, perhaps nothing: the leader asks again when a learner is
// ready or the map has changed. Before that it publishes topology.Snapshot.RecordVoters with the voters there are, if
// the map does not have them yet. A configuration never votes with two, nor with fewer than three after three (PL2),
// and a voter that leaves waits for the one that is joining in its place (PL3).
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
	// A voter that the map does not know is younger than the map that this node has, for the map loses a voter only
	// after Raft did; unless it has a younger replica: then it has lost a learner, which a leader that had not heard of
	// that made a voter.
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

// youngest is the highest id in a set: ids are given in order, over all partitions.
func youngest(set *topology.ReplicaSet) (id topology.ReplicaID) {
	for i := range set.Replicas {
		id = max(id, set.Replicas[i].ID)
	}
	return id
}

// exchange says how many learners become voters and how many voters go at once. joining counts those that are to become
// voters, caughtUp those of them that can.
func exchange(voters, leaving, joining, caughtUp int) (promote, remove int) {
	free := max(0, leaving-joining) // those for whom nobody comes
	for promote = min(caughtUp, max(0, Replicas-(voters-leaving))); promote >= 0; promote-- {
		for remove = min(leaving, promote+free); remove >= 0; remove-- {
			if allowed(voters, voters+promote-remove) {
				return promote, remove
			}
		}
	}
	return 0, 0
}

// allowed reports whether a set may go from one number of voters to another (PL2).
func allowed(from, to int) bool {
	switch {
	case to == from:
		return true
	case to < 1 || to == 2 || to > max(Replicas, from):
		return false
	}
	return to >= min(from, 3)
}

// PreferredLeader is the voter that is to lead a set: the first in order whose node may, else any that may; 0 if none
// does. order is Ring.Prefer; a node may lead while it is up, answers and is not draining.
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
