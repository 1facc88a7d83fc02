// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
)

// report returns this node's report for other nodes.
func (c *cluster) report() peers.Report {
	n := c.n
	m := n.store.Metrics()
	replicas := n.host.Replicas()
	r := peers.Report{
		Clock: time.Now(), Started: n.began, Records: n.metadata.State().Version, Schema: n.catalog.Snapshot().Version,
		Software: process.Version(), Newest: n.levels.Newest,
		DiskFree: m.FreePercent, DiskFull: m.DiskFull, DiskBytes: m.DiskBytes, Replicas: len(replicas),
		Memory: n.host.DedupeEpoch(),
	}
	for _, h := range c.member.Stats().Replicas {
		r.ReplicaBytes += h.Bytes
	}
	for _, replica := range replicas {
		if replica.Leading() {
			r.Leading++
		}
	}
	return r
}

// MetadataChanged applies new metadata to the connections with other nodes.
func (c *cluster) MetadataChanged(old, next *meta.State) {
	if err := c.n.store.Raise(next.Topology.Level()); err != nil {
		c.n.life.Fail(err)
	}
	if c.member.MetadataChanged(old, next) {
		c.removed()
	}
	select {
	case <-c.started:
		c.reconcilers.MetadataChanged(old, next)
		c.sendTopologyEvents(old, next)
	default:
	}
}

// sendTopologyEvents sends clients events about added and removed nodes, and about a changed number of replicas.
func (c *cluster) sendTopologyEvents(old, next *meta.State) {
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
	if placement.EffectiveReplicas(old) != placement.EffectiveReplicas(next) {
		c.n.engine.AnnounceReplication()
	}
}

// aliveChanged is called when a node goes down or comes back.
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
	c.sendStatusEvent(node, alive)
}

// endpoints returns the other nodes for drivers.
func (c *cluster) endpoints() (self catalog.Endpoint, others []catalog.Endpoint) {
	for _, node := range c.n.metadata.State().Nodes {
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

// endpoint returns a node as shown to drivers.
func endpoint(node *meta.Node) *catalog.Endpoint {
	e := &catalog.Endpoint{HostID: schema.UUID(node.ID), Datacenter: node.Region, Rack: node.Zone, Tokens: node.Tokens}
	e.Listen, _ = netip.ParseAddrPort(node.Internal) // an invalid address is not shown
	e.RPC, _ = netip.ParseAddrPort(node.CQL)
	return e
}
