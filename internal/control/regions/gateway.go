// SPDX-License-Identifier: Apache-2.0

package regions

import (
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/remote"
)

// Gateway determines how a node reaches replicas in other regions. The caller must set the exported fields before use.
type Gateway struct {
	// Region is the region of this node.
	Region string
	// Metadata returns the cluster metadata, or nil if it is not loaded yet.
	Metadata func() *meta.State
	// Peers returns the dedupe epochs of other nodes. *peers.Peers implements it.
	Peers interface {
		Memory(node topology.NodeID, before time.Time) uint64
	}
	// Sched provides the time. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Replica returns the replica of a partition on a node. If the node is in another region, it forwards requests to the
// leader.
func (g *Gateway) Replica(c *remote.Client, node topology.NodeID, id topology.PartitionID) *remote.Replica {
	r := c.Replica(node, id)
	if s := g.Metadata(); s != nil {
		if n := s.Node(node); n != nil && n.Region != g.Region {
			return r.Forwarding(g.epochs)
		}
	}
	return r
}

// epochs appends the dedupe epochs of the voters of a partition's home set.
func (g *Gateway) epochs(dst []remote.Epoch, id topology.PartitionID) []remote.Epoch {
	m := g.Metadata().Topology
	p := m.Partition(id)
	if p == nil {
		return dst
	}
	set := topology.HomeSet(m, p)
	if set == nil {
		return dst
	}
	now := g.Sched.Now()
	for i := range set.Replicas {
		if r := &set.Replicas[i]; r.State.Votes() {
			dst = append(dst, remote.Epoch{Node: r.Node, Value: g.Peers.Memory(r.Node, now)})
		}
	}
	return dst
}
