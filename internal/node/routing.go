// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/session"
)

// routing tells clients where data is, nil if all are here.
func (n *Node) routing() session.Routing {
	if n.cluster == nil {
		return nil
	}
	return &session.MapRouting{
		Map: n.coordinator.Topology, Node: n.cluster.self,
		Leader: func(id topology.PartitionID) (topology.NodeID, bool) {
			if r := n.host.Replica(id); r != nil {
				return r.Leader()
			}
			return topology.NodeID{}, false
		},
	}
}

// near says which reads this node answers by itself, at once; nil: all.
func (n *Node) near() func(table uint32, t token.Token, level dberr.Consistency) bool {
	if n.cluster == nil {
		return nil
	}
	return func(table uint32, t token.Token, level dberr.Consistency) bool {
		p := n.coordinator.Topology().Locate(table, t, nil)
		if p == nil {
			return true // it is refused at once
		}
		r := n.host.Replica(p.ID)
		return r != nil && (r.Leading() || level == dberr.One || level == dberr.LocalOne)
	}
}
