// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
)

// nodeRecord returns the node's own record for the metadata. The node that admits it assigns its tokens and join time.
func (n *Node) nodeRecord() *meta.Node {
	cql, web := n.clientAddrs()
	id := n.store.Identity()
	var start incarnation.Start // none on a standalone node
	if n.cluster != nil {
		start = n.cluster.directoryGuard.Directory.History.Newest()
	}
	return &meta.Node{
		ID: id.Node, CreationID: id.CreationID, Start: start.Number, Mark: start.Mark, Internal: n.internalAddr(),
		CQL:    cql,
		HTTP:   web,
		Region: n.opts.Region, Zone: n.opts.Zone, State: meta.Up, Levels: n.levels,
	}
}

// internalAddr returns the address for other nodes, and clientAddrs the addresses for clients.
func (n *Node) internalAddr() string {
	if n.nodeListener == nil {
		return ""
	}
	return reachable(n.opts.Cluster.Advertise, n.nodeListener.Addr(), "")
}

func (n *Node) clientAddrs() (cql, web string) {
	host, _, _ := net.SplitHostPort(n.internalAddr()) // validated, or the listener's address
	cql = reachable(n.opts.CQL, n.cqlListener.Addr(), host)
	if n.webListener != nil {
		web = reachable(n.opts.HTTP, n.webListener.Addr(), host)
	}
	return cql, web
}

// reachable returns a listener's address for other machines, with its actual port. If it listens on all interfaces, the
// host is replaced.
func reachable(configured string, l net.Addr, elsewhere string) string {
	host, port, err := net.SplitHostPort(configured)
	if err != nil {
		return l.String()
	}
	_, real, err := net.SplitHostPort(l.String())
	if err == nil && port == "0" {
		port = real
	}
	if options.IsUnspecified(host) && elsewhere != "" {
		host = elsewhere
	}
	return net.JoinHostPort(host, port)
}
