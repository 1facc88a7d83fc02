// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// routing returns the token metadata for drivers and the local reads for sessions, or nil on a standalone node, which
// holds all data.
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
