// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// ServesLocally reports whether this node can serve a read of a partition key without contacting another node. For a
// consistency level of one replica, this node must have a replica whose budget allows the read. For other levels, this
// node must lead the partition. The result is only a hint, because the replica may be stale or may have lost its
// leadership. For an unknown table, ServesLocally returns true, because the read fails immediately.
func (c *Coordinator) ServesLocally(table uint32, t token.Token, level dberr.Consistency,
	who fairshare.Principal) bool {
	s := c.Topology()
	i := s.Find(table, topology.Position{Ring: t.Position()})
	if i < 0 {
		return true
	}
	here := c.cluster.local.Replica(s.Partitions(table)[i].ID)
	return here != nil && (level.OneReplica() && here.Throughput().AllowsLocalRead(who) || here.Leading())
}
