// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Shortage is a replica set with fewer voters that answer than the nodes of its region can give it.
type Shortage struct {
	Partition topology.PartitionID
	Table     uint32 // topology.MetaTable for the meta partition
	Region    string
	// Voters are those of the set, Alive those that answer.
	Voters, Alive int
	// Wanted is how many it is to have.
	Wanted int
	// Spare is how many of them may fail while it goes on working, below 0 if it does not work.
	Spare int
	// Changing is true while replicas join or leave.
	Changing bool
}

// Wanted is how many voters a replica set of a region is to have: Replicas, or fewer where there are fewer nodes. Those
// that are down count, those that leave do not.
func Wanted(state *meta.State, region string) int {
	n := 0
	for _, node := range state.Nodes {
		if node.Region == region && node.State != meta.Leaving && node.State != meta.Left {
			n++
		}
	}
	return voters(n)
}

// UnderReplicated lists the replica sets that are short of voters, the meta partition first, for status.
func UnderReplicated(state *meta.State, down map[topology.NodeID]time.Time) []Shortage {
	var out []Shortage
	view := &View{Down: down}
	for p := range state.Topology.All() {
		for i := range p.Sets {
			s := setInfo{p: p, set: &p.Sets[i]}
			s.count(view)
			if wanted := Wanted(state, s.set.Region); s.alive < wanted {
				out = append(out, Shortage{p.ID, p.Table, s.set.Region, s.votes, s.alive, wanted,
					s.alive - topology.Quorum(s.votes), s.busy})
			}
		}
	}
	return out
}

// Holds counts the replicas that a node still has in the map, without those of the meta partition that do not vote: a
// node that leaves has left when there are none.
func Holds(state *meta.State, node topology.NodeID) int {
	n := 0
	for p := range state.Topology.All() {
		for i := range p.Sets {
			if m := p.Sets[i].On(node); m != nil && (p.ID != topology.MetaPartition || m.State != topology.Learner) {
				n++
			}
		}
	}
	return n
}
