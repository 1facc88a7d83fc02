// SPDX-License-Identifier: Apache-2.0

// Package nodeevents sends events about the nodes of the cluster to CQL clients. A node can be added, removed, up, or
// down. Start reading at Notifier.
package nodeevents

import (
	"net/netip"

	"github.com/ilion-db/ilion/internal/control/clusterquery"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// Notifier sends events about other nodes to the clients of this node. The caller must set its fields before use. Its
// methods are safe for concurrent use.
type Notifier struct {
	Self topology.NodeID
	// Address is the address of this node's CQL listener.
	Address  netip.AddrPort
	Metadata *meta.Keeper
	Peers    *peers.Peers
	Queries  *clusterquery.Client
	Clients  Clients
	Catalog  *catalog.Catalog

	stopping stoppingNodes
}

// Clients sends events to the connected clients. *cql.Server implements it.
type Clients interface {
	// StatusChanged sends the event that a node is up or down.
	StatusChanged(node netip.AddrPort, up bool)
	// TopologyChanged sends the event that a node was added or removed.
	TopologyChanged(node netip.AddrPort, added bool)
	// SchemaChanged sends a schema change.
	SchemaChanged(change session.SchemaChange)
}

// MetadataChanged sends events about added and removed nodes, and about a changed number of replicas.
func (n *Notifier) MetadataChanged(old, next *meta.State) {
	for _, node := range next.Nodes {
		was := old.Node(node.ID)
		here, before := node.State != meta.Left, was != nil && was.State != meta.Left
		if here == before || node.ID == n.Self {
			continue
		}
		if a, ok := catalog.NodeEndpoint(node).Address(n.Address); ok {
			n.Clients.TopologyChanged(a, here)
			if here {
				n.Clients.StatusChanged(a, true)
			}
		}
	}
	replicas := func(s *meta.State) int { return placement.EffectiveReplicas(s, topology.HomeRegion(next.Topology)) }
	if replicas(old) != replicas(next) {
		n.announceReplication()
	}
}

// announceReplication sends the event that the replication of all replicated keyspaces has changed. system_schema
// shows the effective replication. Drivers read it again only after this event.
func (n *Notifier) announceReplication() {
	for ks := range n.Catalog.Snapshot().All() {
		if !schema.IsLocalSystem(ks.Name) && !schema.IsVirtualSystem(ks.Name) {
			n.Clients.SchemaChanged(session.SchemaChange{Change: "UPDATED", Target: "KEYSPACE", Keyspace: ks.Name})
		}
	}
}

// StatusChanged sends the event that a node is up or down.
func (n *Notifier) StatusChanged(node topology.NodeID, up bool) {
	if record := n.Metadata.State().Node(node); record != nil {
		if a, ok := catalog.NodeEndpoint(record).Address(n.Address); ok {
			n.Clients.StatusChanged(a, up)
		}
	}
}
