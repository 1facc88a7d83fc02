// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
)

// nodeRecord returns the node's own record for the metadata. The node that admits this node assigns the tokens and the
// join time.
func (n *Node) nodeRecord() *meta.Node {
	cql, web := n.ClientAddrs()
	id := n.store.Identity()
	var start incarnation.Start // not set on a standalone node
	if n.cluster != nil {
		start = n.cluster.directoryGuard.Directory.History.Newest()
	}
	return &meta.Node{
		ID: id.Node, CreationID: id.CreationID, Start: start.Number, Mark: start.Mark, Internal: n.InternalAddr(),
		CQL:    cql,
		HTTP:   web,
		Region: n.opts.Region, Zone: n.opts.Zone, State: meta.Up, Levels: n.levels,
	}
}
