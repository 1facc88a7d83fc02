// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/replica/incarnation"
)

// record is what the cluster is told of this node. Its tokens and the time at which it joined are given by the node
// that takes it in.
func (n *Node) record() *meta.Node {
	cql, web := n.clientAddrs()
	id := n.store.Identity()
	var start incarnation.Start // none for a node that stands alone
	if n.cluster != nil {
		start = n.cluster.originals.Directory.History.Newest()
	}
	return &meta.Node{
		ID: id.Node, Birth: id.Birth, Start: start.Number, Mark: start.Mark, Internal: n.internalAddr(), CQL: cql,
		HTTP:   web,
		Region: n.opts.Region, Zone: n.opts.Zone, State: meta.Up, Levels: n.levels,
	}
}

// internalAddr is where other nodes reach this one, clientAddrs where clients do.
func (n *Node) internalAddr() string {
	if n.nodeListener == nil {
		return ""
	}
	return reachable(n.opts.Cluster.Advertise, n.nodeListener.Addr(), "")
}

func (n *Node) clientAddrs() (cql, web string) {
	host, _, _ := net.SplitHostPort(n.internalAddr()) // it was checked, or is the listener's own
	cql = reachable(n.opts.CQL, n.cqlListener.Addr(), host)
	if n.webListener != nil {
		web = reachable(n.opts.HTTP, n.webListener.Addr(), host)
	}
	return cql, web
}

// reachable is the address of a listener for others: with the port it really has, and with another host where it
// listens on all.
func reachable(configured string, l net.Addr, elsewhere string) string {
	host, port, err := net.SplitHostPort(configured)
	if err != nil {
		return l.String()
	}
	_, real, err := net.SplitHostPort(l.String())
	if err == nil && port == "0" {
		port = real
	}
	if isUnspecified(host) && elsewhere != "" {
		host = elsewhere
	}
	return net.JoinHostPort(host, port)
}
