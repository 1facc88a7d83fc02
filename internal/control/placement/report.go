// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Shortage is a replica set with fewer live voters than the number of nodes in its region permits.
type Shortage struct {
	Partition topology.PartitionID
	Table     uint32 // topology.MetaTable for the meta partition
	Region    string
	// Voters is the number of voters, and Alive is the number of live voters.
	Voters, Alive int
	// Wanted is the required number of voters.
	Wanted int
	// Spare is the number of additional voters that may fail while the set remains available. It is negative if the set
	// is unavailable.
	Spare int
	// Changing reports whether replicas are joining or leaving.
	Changing bool
}

// Wanted returns the required number of voters of a replica set in a region. It is Replicas, or less if the region has
// fewer nodes. Down nodes count as nodes of the region, but leaving nodes do not.
func Wanted(state *meta.State, region string) int {
	n := 0
	for _, node := range state.Nodes {
		if node.Region == region && node.State != meta.Leaving && node.State != meta.Left {
			n++
		}
	}
	return voters(n)
}

// UnderReplicated returns the replica sets with too few live voters, starting with the meta partition.
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

// Holds returns the number of replicas on a node, excluding learners of the meta partition. A leaving node has left
// when the result is 0.
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
