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

const (
	// agreeWait is how long a change of the schema waits for the other nodes to have it.
	agreeWait = time.Second
)

// Describe implements peers.Host.
func (c *cluster) Describe(to topology.NodeID) peers.Report {
	r := c.describe()
	if node := c.n.records.State().Node(to); node != nil && node.State == meta.Left {
		r.Left = true
	}
	return r
}

func (c *cluster) describe() peers.Report {
	n := c.n
	m := n.store.Metrics()
	replicas := n.host.Replicas()
	r := peers.Report{
		Clock: time.Now(), Started: n.began, Records: n.records.State().Version, Schema: n.catalog.Snapshot().Version, Software: Software(), Newest: n.levels.Newest,
		DiskFree: m.FreePercent, DiskFull: m.DiskFull, DiskBytes: m.DiskBytes, Replicas: len(replicas),
	}
	for _, replica := range replicas {
		if replica.Leading() {
			r.Leading++
		}
	}
	return r
}

// Stops implements peers.Host.
func (c *cluster) Stops(node topology.NodeID) { c.peers.SetStops(node) }

// Await implements peers.Host.
func (c *cluster) Await(ctx context.Context, version uint64, others bool) (peers.Standing, error) {
	s, err := c.n.records.Wait(ctx, version)
	if err != nil {
		return peers.Standing{}, err
	}
	if others {
		ctx, cancel := context.WithTimeout(ctx, agreeWait)
		defer cancel()
		c.peers.Known(ctx, version)
	}
	return peers.Standing{Records: s.Version, Schema: s.Schema.Version}, nil
}

// Acknowledged implements peers.Host.
func (c *cluster) Acknowledged(to map[topology.PartitionID]uint64) {
	for id, index := range to {
		if r := c.n.host.Replica(id); r != nil {
			r.Seen(index)
		}
	}
}

// view is what this node sees of the others, for placement.
func (c *cluster) view() placement.View {
	v := placement.View{
		Now:       time.Now(),
		Down:      c.peers.Down(),
		Stopping:  c.peers.Stopping(),
		Free:      map[topology.NodeID]int{},
		HealAfter: c.n.opts.Cluster.HealAfter,
	}
	for _, node := range c.n.records.State().Nodes {
		if k, ok := c.peers.Report(node.ID); ok && k.DiskFree >= 0 {
			v.Free[node.ID] = k.DiskFree
		}
	}
	if free := c.n.store.Metrics().FreePercent; free >= 0 {
		v.Free[c.self] = free
	}
	return v
}

// installed follows new records: who is there, and where.
func (c *cluster) installed(old, next *meta.State) {
	if err := c.n.store.Raise(next.Map.Level()); err != nil {
		c.n.fail(err)
	}
	var nodes []topology.NodeID
	for _, node := range next.Nodes {
		if node.State != meta.Left {
			nodes = append(nodes, node.ID)
			// What a node says of itself when it connects is newer than its record, if it has moved and cannot change
			// that yet.
			if was := old.Node(node.ID); node.ID != c.self && (was == nil || was.Internal != node.Internal) {
				c.transport.SetAddress(node.ID, node.Internal)
			}
		}
		if node.ID == c.self && node.State == meta.Left {
			c.left()
		}
	}
	c.peers.Watch(nodes)
	if old.Schema != next.Schema {
		c.peers.Follow(next.Version)
	}
	for _, node := range old.Nodes {
		if now := next.Node(node.ID); (now == nil || now.State == meta.Left) && node.State != meta.Left {
			c.transport.Forget(node.ID)
		}
	}
	select {
	case <-c.started:
		c.members.Changed(old, next)
		c.tellTopology(old, next)
	default:
	}
}

// tellTopology tells clients who came and went, and that replicas are elsewhere if there are more of them now.
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
	if n := c.n.records.State().Node(node); n != nil {
		if a, ok := endpoint(n).Address(c.n.info.RPC); ok {
			c.n.cql.StatusChanged(a, alive)
		}
	}
}

// agree waits until the other nodes have a version of the records.
func (c *cluster) agree(ctx context.Context, version uint64) {
	ctx, cancel := context.WithTimeout(ctx, agreeWait)
	defer cancel()
	for _, node := range c.peers.Agree(ctx, version) {
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "a node has not heard of a change of the schema in time", slog.String("node", node.Short()))
	}
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
	return n.cluster.orders.Order(ctx, node, map[string]meta.NodeState{"drain": meta.Draining, "decommission": meta.Leaving}[what])
}
