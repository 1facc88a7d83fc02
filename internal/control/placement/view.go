// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Replicas is how many voters a replica set has where there are enough nodes.
const Replicas = 4

// EffectiveReplicas is how many voters every replica set has or will have, as long as no region has fewer nodes than
// the others.
func EffectiveReplicas(s *meta.State) int {
	nodes := 0
	for _, n := range s.Nodes {
		if n.State == meta.Up || n.State == meta.Draining {
			nodes++
		}
	}
	return voters(nodes)
}

// voters is how many voters a set has in a region of so many nodes: never two, which would be less available than one.
func voters(nodes int) int {
	if nodes < 3 {
		return 1
	}
	return min(nodes, Replicas)
}

// Defaults of View.
const (
	DefaultRebuildDelay = 5 * time.Minute
	ChangesMax          = 8
	FreeMin             = 15 // percent
)

// View is what Schedule sees of the nodes.
type View struct {
	Now time.Time
	// Down holds since when a node has not answered.
	Down map[topology.NodeID]time.Time
	// Stopping are nodes whose processes are about to end.
	Stopping map[topology.NodeID]bool
	// RecentlyRestarted are nodes whose processes have begun so lately that others may not know it: they are given
	// nothing to lead.
	RecentlyRestarted map[topology.NodeID]bool
	// Skewed are nodes whose clocks are wrong: they give away what they lead.
	Skewed map[topology.NodeID]bool
	// Free is how much of a node's disk is free, in percent; nodes that are missing are taken to have enough. One with
	// less than FreeMin gets no replicas.
	Free map[topology.NodeID]int
	// LowSpace are nodes whose disks have little room left: they are given nothing to lead.
	LowSpace map[topology.NodeID]bool
	// Sizes are what a replica of each partition takes, as far as it is known: with none the ring alone decides.
	Sizes map[topology.PartitionID]Size
	// Capacity is how many bytes nodes have room for; one that is missing is taken to have as much as the others.
	Capacity map[topology.NodeID]uint64
	// BytesSlack is how many bytes a node may have above its share beyond Tolerance; 0 is the default.
	BytesSlack float64
	// RebuildDelay is how long a node may be down before its replicas are replaced; 0 is the default.
	RebuildDelay time.Duration
	// ChangesMax bounds the replica sets that change at a time; 0 is the default, or as many as there are nodes.
	ChangesMax int
}

func (v *View) down(id topology.NodeID) bool {
	_, down := v.Down[id]
	return down
}

// dead reports whether a node has been down for too long.
func (v *View) dead(id topology.NodeID) bool {
	since, down := v.Down[id]
	after := v.RebuildDelay
	if after <= 0 {
		after = DefaultRebuildDelay
	}
	return down && v.Now.Sub(since) >= after
}

// stays reports whether a node's replicas are to remain.
func (v *View) stays(n *meta.Node) bool {
	return n != nil && (n.State == meta.Up || n.State == meta.Draining) && !v.dead(n.ID)
}

// takes reports whether a node can be given a replica now.
func (v *View) takes(n *meta.Node) bool {
	free, known := v.Free[n.ID]
	return n.State == meta.Up && !v.down(n.ID) && (!known || free >= FreeMin)
}

// MayLead reports whether a node is to lead partitions: see PreferredLeader.
func (v *View) MayLead(n *meta.Node) bool {
	return n != nil && (n.State == meta.Up || n.State == meta.Leaving) && !v.down(n.ID) && !v.Stopping[n.ID] &&
		!v.RecentlyRestarted[n.ID] && !v.Skewed[n.ID] && !v.LowSpace[n.ID]
}

// RingOf is the ring of the nodes of a region whose replicas are to remain.
func RingOf(state *meta.State, view *View, region string) *Ring {
	return ringOf(state, region, view.stays)
}

func ringOf(state *meta.State, region string, counts func(*meta.Node) bool) *Ring {
	var nodes []*meta.Node
	for _, n := range state.Nodes {
		if n.Region == region && counts(n) {
			nodes = append(nodes, n)
		}
	}
	return NewRing(nodes)
}
