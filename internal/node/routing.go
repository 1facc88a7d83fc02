// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/session"
)

// routing tells clients where data is, and sessions which reads this node answers by itself; nil for a node that stands
// alone, where all are.
func (n *Node) routing() *session.TopologyRouting {
	if n.cluster == nil {
		return nil
	}
	return &session.TopologyRouting{
		Topology: n.coordinator.Topology, Node: n.cluster.self,
		Leader: func(id topology.PartitionID) (topology.NodeID, bool) {
			if r := n.host.Replica(id); r != nil {
				return r.Leader()
			}
			return topology.NodeID{}, false
		},
	}
}
