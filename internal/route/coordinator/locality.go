// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// ServesLocally reports whether a read of a partition key can be served on this node without contacting another one. At
// a consistency level of one replica, this node needs a replica whose budget allows the read. At other levels, it must
// lead. The result is a hint: the replica may turn out to be stale, or not to lead any longer. It returns true for an
// unknown table, because the error is immediate.
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
