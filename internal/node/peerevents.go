// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"log/slog"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/node/process"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// Report implements membership.Node.
func (c localNode) Report() peers.Report {
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

// MetadataChanged applies new metadata to the connections to other nodes.
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

// peerObserver handles events about the connections, the ends, and the clocks of other nodes. It implements
// transport.Observer and peers.Observer.
type peerObserver struct{ *cluster }

// AliveChanged logs that a node has failed or recovered, and sends an event to clients.
func (c peerObserver) AliveChanged(node topology.NodeID, alive bool) {
	c.n.log.LogAttrs(c.ctx, slog.LevelInfo, map[bool]string{true: "node is up", false: "node is down"}[alive],
		slog.String("node", node.Short()))
	select {
	case <-c.started:
		c.events.StatusChanged(node, alive)
	default:
	}
}

// Removed stops the node.
func (c peerObserver) Removed() { c.removed() }

// ClockSkewed transfers leadership to nodes with correct clocks if a quorum reports that the clock of this node is
// wrong. The node can lead partitions again when its clock is correct. The clocks of the other nodes already limit the
// timestamps and expirations that this node uses.
func (c peerObserver) ClockSkewed(skewed bool, ahead time.Duration) {
	if h := c.host.Load(); h != nil {
		h.ReplicaSets().Abstain(partition.ClockWrong, skewed)
	}
	if ahead == 0 {
		level := slog.LevelInfo
		if skewed {
			level = slog.LevelDebug
		}
		c.n.log.LogAttrs(c.ctx, level, "compared the clock of this node with the clocks of other nodes",
			slog.Bool("may_lead", !skewed))
		return
	}
	c.n.log.LogAttrs(c.ctx, slog.LevelError,
		"the clock of this node differs from the clocks of most nodes: transferring its leaderships to other nodes if possible",
		slog.Duration("ahead", ahead.Round(time.Millisecond)))
}

// Accepted records the process of a peer that connected to this node.
func (c peerObserver) Accepted(p transport.Peer) { c.directoryGuard.RecordStart(p) }

// DialFailed logs a failed attempt to connect. It stops the node if the other nodes have removed it.
func (c peerObserver) DialFailed(node topology.NodeID, address string, err error) {
	c.directoryGuard.HandleUnreachable(err)
	if refused := (*transport.Refused)(nil); errors.As(err, &refused) && refused.ByPeer &&
		errors.Is(err, transport.ErrNotAdmitted) {
		c.removed()
	}
	c.rejections.LogUnreachable(node, address, err)
}

// Refused records that the address of a node refuses connections. The process of the node may have ended.
func (c peerObserver) Refused(p transport.Peer) {
	c.peers.SetDown(p.Node, true)
	if h := c.host.Load(); h != nil {
		h.ReplicaSets().NodeRefused(p.Node)
	}
}

// Departed records that a node's process has announced its end.
func (c peerObserver) Departed(p transport.Peer) {
	c.peers.SetDown(p.Node, true)
	if h := c.host.Load(); h != nil {
		h.ReplicaSets().NodeDeparted(p.Node)
	}
}

// HandshakeRefused logs that a peer that connected to this node was rejected.
func (c peerObserver) HandshakeRefused(remote string, err error) {
	c.rejections.LogRejected(remote, err)
}

// replicaObserver handles the events of the replicas on this node. It implements partition.Observer.
type replicaObserver struct {
	partition.NoObserver
	*cluster
}

// PeerDown and the methods below implement raftgroup.Observer.
func (c replicaObserver) PeerDown(node topology.NodeID, down bool) { c.peers.SetDown(node, down) }
func (c replicaObserver) Failed(err error)                         { c.directoryGuard.HandleGroupFailure(err) }

func (c replicaObserver) SnapshotSent(group, to uint64, err error) {
	attrs := []slog.Attr{slog.Uint64("partition", group), slog.Uint64("replica", to)}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
		c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "snapshot not sent", attrs...)
		return
	}
	c.n.log.LogAttrs(c.ctx, slog.LevelDebug, "snapshot sent", attrs...)
}

func (c replicaObserver) SnapshotInstalled(group, index uint64) {
	c.n.log.LogAttrs(c.ctx, slog.LevelDebug, "snapshot installed", slog.Uint64("partition", group),
		slog.Uint64("index", index))
}

func (c replicaObserver) Dropped(limit string, n int) {
	c.n.log.LogAttrs(c.ctx, slog.LevelWarn, "messages between nodes dropped", slog.String("bound", limit),
		slog.Int("messages", n))
}

// RecordsChanged makes the node read the changed metadata records.
func (c replicaObserver) RecordsChanged(version uint64) {
	c.version.Store(version)
	if k := c.keeper.Load(); k != nil {
		k.Reload(version)
	}
}

// RecordsPut passes changed metadata records to the keeper.
func (c replicaObserver) RecordsPut(version uint64, put []command.Record) {
	if k := c.keeper.Load(); k != nil {
		k.NoteChange(version, put)
	}
}

// Replaced makes the node rejoin the meta partition. It may be called repeatedly.
func (c replicaObserver) Replaced(replica topology.ReplicaID) {
	if c.returning.TryLock() {
		c.run(func() {
			defer c.returning.Unlock()
			c.rejoinMeta(replica)
		})
	}
}

// LeadershipChanged passes a new leader to the coordinator and the reconcilers.
func (c replicaObserver) LeadershipChanged(id topology.PartitionID, leader topology.NodeID, here bool) {
	select {
	case <-c.started:
	default:
		return
	}
	c.n.log.LogAttrs(c.ctx, slog.LevelDebug, "leader changed", slog.Uint64("partition", uint64(id)),
		slog.String("leader", leader.Short()), slog.Bool("here", here))
	c.n.coordinator.LeaderChanged(id, leader)
	if here {
		c.reconcilers.Enqueue(id)
	}
	if id == topology.MetaPartition {
		c.n.builder.Wake()
	}
}
