// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/process"
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
		c.events.MetadataChanged(old, next)
	default:
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
	c.events.StatusChanged(node, alive)
}
