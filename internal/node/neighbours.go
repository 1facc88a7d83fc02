// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
)

// describe is what this node tells the others about itself.
func (c *cluster) describe() peers.Report {
	n := c.n
	m := n.store.Metrics()
	replicas := n.host.Replicas()
	r := peers.Report{
		Clock: time.Now(), Started: n.began, Records: n.records.State().Version, Schema: n.catalog.Snapshot().Version,
		Software: Software(), Newest: n.levels.Newest,
		DiskFree: m.FreePercent, DiskFull: m.DiskFull, DiskBytes: m.DiskBytes, Replicas: len(replicas),
		Memory: n.host.DedupeEpoch(),
	}
	for _, h := range n.held().Replicas {
		r.Held += h.Bytes
	}
	for _, replica := range replicas {
		if replica.Leading() {
			r.Leading++
		}
	}
	return r
}

// installed follows new records: which nodes there are, and where.
func (c *cluster) installed(old, next *meta.State) {
	if err := c.n.store.Raise(next.Map.Level()); err != nil {
		c.n.fail(err)
	}
	if c.member.Follow(old, next) {
		c.left()
	}
	select {
	case <-c.started:
		c.loops.Changed(old, next)
		c.tellTopology(old, next)
	default:
	}
}

// tellTopology tells clients which nodes came and went, and that replicas are elsewhere if there are more of them now.
func (c *cluster) tellTopology(old, next *meta.State) {
	for _, node := range next.Nodes {
		was := old.Node(node.ID)
		here, before := node.State != meta.Left, was != nil && was.State != meta.Left
		if here == before || node.ID == c.self {
			continue
		}
		if a, ok := endpoint(node).Address(c.n.info.RPC); ok {
			c.n.cql.TopologyChanged(a, here)
			if here {
				c.n.cql.StatusChanged(a, true)
			}
		}
	}
	if placement.Effective(old) != placement.Effective(next) {
		c.n.engine.AnnounceReplication()
	}
}

// aliveChanged is told that a node came or went.
func (c *cluster) aliveChanged(node topology.NodeID, alive bool) {
	c.n.log.LogAttrs(
		c.ctx,
		slog.LevelInfo,
		map[bool]string{true: "node is up", false: "node is down"}[alive],
		slog.String("node", node.Short()),
	)
	select {
	case <-c.started:
	default:
		return
	}
	c.tellStatus(node, alive)
}

// endpoints are the other nodes, for drivers.
func (c *cluster) endpoints() (self catalog.Endpoint, others []catalog.Endpoint) {
	for _, node := range c.n.records.State().Nodes {
		if node.State == meta.Left {
			continue
		}
		e := endpoint(node)
		if node.ID == c.self {
			self = *e
			continue
		}
		if k, ok := c.peers.Report(node.ID); ok && k.Alive {
			e.SchemaVersion = k.Schema
		}
		others = append(others, *e)
	}
	return self, others
}

// endpoint is a node as drivers see it.
func endpoint(node *meta.Node) *catalog.Endpoint {
	e := &catalog.Endpoint{HostID: schema.UUID(node.ID), Datacenter: node.Region, Rack: node.Zone, Tokens: node.Tokens}
	e.Listen, _ = netip.ParseAddrPort(node.Internal) // what is no address is not shown
	e.RPC, _ = netip.ParseAddrPort(node.CQL)
	return e
}

// order is what an operator tells the cluster about a node.
func (n *Node) order(ctx context.Context, what, node string) (string, error) {
	if n.cluster == nil {
		return "", errors.New("this node stands alone")
	}
	return n.cluster.orders.Order(ctx, node, map[string]meta.NodeState{"drain": meta.Draining,
		"decommission": meta.Leaving, "resume": meta.Up}[what])
}
