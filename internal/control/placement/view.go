// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Replicas is the number of voters of a replica set with enough nodes.
const Replicas = 4

// EffectiveReplicas returns the number of voters that every replica set in a region has or will have. It returns 0 if
// the region has no nodes.
func EffectiveReplicas(s *meta.State, region string) int {
	nodes := 0
	for _, n := range s.Nodes {
		if n.Region == region && (n.State == meta.Up || n.State == meta.Draining) {
			nodes++
		}
	}
	if nodes == 0 {
		return 0
	}
	return voters(nodes)
}

// voters returns the number of voters of a set in a region with the given number of nodes. It never returns two,
// because two voters are less available than one voter.
func voters(nodes int) int {
	if nodes < 3 {
		return 1
	}
	return min(nodes, Replicas)
}

// These are the defaults of View.
const (
	DefaultRebuildDelay = 5 * time.Minute
	ChangesMax          = 8
	FreeMin             = 15 // percent
)

// View is the state of the nodes that Schedule uses.
type View struct {
	Now time.Time
	// Down maps each node that is down to the time since which the node has been down.
	Down map[topology.NodeID]time.Time
	// Stopping holds the nodes whose processes are stopping.
	Stopping map[topology.NodeID]bool
	// RecentlyRestarted holds the nodes whose restarts may be unknown to other nodes. These nodes must not become
	// leaders.
	RecentlyRestarted map[topology.NodeID]bool
	// Skewed holds the nodes with incorrect clocks. These nodes transfer their leaderships to other nodes.
	Skewed map[topology.NodeID]bool
	// Free is the free share of a node's disk in percent. A node that is not in the map has enough free space. A node
	// below FreeMin gets no replicas.
	Free map[topology.NodeID]int
	// LowSpace holds the nodes with almost full disks. These nodes must not become leaders.
	LowSpace map[topology.NodeID]bool
	// Sizes maps partitions to the known sizes of their replicas. If Sizes is empty, only the ring determines the
	// placement.
	Sizes map[topology.PartitionID]Size
	// Capacity maps nodes to the number of bytes that they can store. A node that is not in the map has an average
	// capacity.
	Capacity map[topology.NodeID]uint64
	// BytesSlack is the number of bytes that a node may have beyond Tolerance. If it is 0, the default applies.
	BytesSlack float64
	// RebuildDelay is the time for which a node may be down before its replicas are replaced. If it is 0, the default
	// applies.
	RebuildDelay time.Duration
	// ChangesMax is the maximum number of replica sets that change at the same time. If it is 0, the maximum of the
	// default and the number of nodes applies.
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

// stays reports whether the replicas of a node should remain on the node.
func (v *View) stays(n *meta.Node) bool {
	return n != nil && (n.State == meta.Up || n.State == meta.Draining) && !v.dead(n.ID)
}

// takes reports whether a node can take a replica now.
func (v *View) takes(n *meta.Node) bool {
	free, known := v.Free[n.ID]
	return n.State == meta.Up && !v.down(n.ID) && (!known || free >= FreeMin)
}

// MayLead reports whether a node may lead partitions; see PreferredLeader.
func (v *View) MayLead(n *meta.Node) bool {
	return n != nil && (n.State == meta.Up || n.State == meta.Leaving) && !v.down(n.ID) && !v.Stopping[n.ID] &&
		!v.RecentlyRestarted[n.ID] && !v.Skewed[n.ID] && !v.LowSpace[n.ID]
}

// RingOf returns the ring of the nodes in a region whose replicas should remain on their nodes.
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
