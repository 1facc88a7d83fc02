// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Near reports whether a read of a partition key is answered on this node without asking another one, as pick would
// have it: at a level of one replica where there is a replica whose budget allows it, else where it leads. It is a
// hint: the replica may turn out not to be fresh, or not to lead any more. A table that is not known is told at once.
func (c *Coordinator) Near(table uint32, t token.Token, level dberr.Consistency, who fairshare.Principal) bool {
	s := c.Topology()
	i := s.Find(table, topology.Position{Ring: t.Position()})
	if i < 0 {
		return true
	}
	here := c.cluster.here(s.Partitions(table)[i].ID)
	return here != nil && (level.OneReplica() && here.Affords(who) || here.Leading())
}
