// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"net/netip"
	"strconv"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/release"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/slowlog"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// What clients are told.
const (
	NativeProtocolVersion = "5"

	Partitioner = "org.apache.cassandra.dht.Murmur3Partitioner"
	Snitch      = "org.apache.cassandra.locator.SimpleSnitch"
)

// The names of data centre and rack where nobody gave others.
const (
	DefaultDatacenter = "datacenter1"
	DefaultRack       = "rack1"
)

// Endpoint is what is known of a node, of oneself as of others.
type Endpoint struct {
	HostID           schema.UUID
	Datacenter, Rack string
	// Listen is where nodes reach it, RPC where clients do. If the address of RPC is unspecified (0.0.0.0), see
	// Address.
	Listen, RPC netip.AddrPort
	// Tokens are its places on the ring, ascending; one in a cluster. A node without any has not joined yet: as a peer
	// it is not shown.
	Tokens []token.Token
	// SchemaVersion is the schema it has; the zero value stands for the snapshot's.
	SchemaVersion schema.UUID
}

// SizeEstimate says how large a piece of a table is.
type SizeEstimate struct {
	Table      uint32
	Range      token.Range
	Partitions uint64
	// MeanBytes is the mean size of a logical partition.
	MeanBytes uint64
}

// Client is a connected client, for system_views.clients.
type Client struct {
	Remote                    netip.AddrPort
	User                      string
	Version                   uint8
	DriverName, DriverVersion string
	// Options are those of STARTUP, and Keyspace is that of USE.
	Options   map[string]string
	Keyspace  string
	Encrypted bool
	Requests  int64
}

// PreparedStatement is a row of system.prepared_statements.
type PreparedStatement struct {
	ID              [16]byte
	Keyspace, Query string
}

// LatencyOf names an operation of the latency views.
type LatencyOperation uint8

// The operations of coordinator_read_latency, coordinator_scan_latency and coordinator_write_latency.
const (
	Reads LatencyOperation = iota
	Scans
	Writes
)

// Latency is a row of a latency view. Times are in milliseconds.
type Latency struct {
	Count     uint64  `json:"count"`
	Median    float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Slowest   float64 `json:"max_ms"`
	PerSecond float64 `json:"per_second"`
}

// Replica is what a node knows of a physical partition of which it has a replica.
type Replica struct {
	// Leader is the node that leads, zero if that is not known or the node stands alone.
	Leader topology.NodeID
	// DiskBytes and LogicalPartitions are how much it holds, Reads and Writes what it has served since the node
	// started.
	DiskBytes, LogicalPartitions, Reads, Writes uint64
}

// NodeInfo is what the node says of itself and its neighbours. A func that is nil has nothing to tell.
type NodeInfo struct {
	// Release is that of Cassandra whose version the node tells; nil is 4.0.
	Release *release.Release
	Endpoint
	ClusterName string
	// Generation grows with every start of the node, in seconds since the epoch.
	Generation int32
	// Peers are the other nodes of the cluster, in any order, whether they are up or not. They are not changed after
	// the NodeInfo was given away.
	Peers []Endpoint
	// EffectiveReplication is the number of replicas that every table has, whatever its keyspace declared: four, or how
	// many voters there can be with fewer nodes. nil or 0: the node stands alone, and the declared replication is
	// shown.
	EffectiveReplication func() int

	// Sizes are the pieces of tables that this node tells of. All nodes together tell of each piece once, and the
	// pieces of a table are the ring.
	Sizes func(ctx context.Context) []SizeEstimate

	Clients  func() []Client
	Prepared func() []PreparedStatement
	Settings func() map[string]string
	// Roles are those that system_auth shows.
	Roles func() *access.State
	// Latency is how long what this node was asked took on a table, false for an operation that there was none of.
	Latency func(table uint32, op LatencyOperation) (Latency, bool)
	// Records are what the cluster knows about itself, of which keyspace ilion shows the partitions.
	Records func() *meta.State
	// Advice is what is to be said about the design of tables, those that could be looked at in a while.
	Advice func(ctx context.Context, tables []*schema.Table) []advise.Report
	// Usage is what was spent at the physical partitions of the cluster.
	Usage func(ctx context.Context, q usage.Question) []usage.Report
	// Users are those that take most of the cluster.
	Users func(ctx context.Context) []usage.User
	// ViewLags are how far views are behind, by the id of their index of hints.
	ViewLags func() map[uint32]ViewLag
	// Tables is what all nodes know of tables, by their ids; those for which there is no time are not sampled.
	Tables func(ctx context.Context, tables []*schema.Table) map[uint32]TableStats
	// Sessions are the connections of all nodes that have most to do, Slow the requests that took long, Ring the nodes
	// as drivers see them.
	Sessions func(ctx context.Context) Sessions
	Slow     func(ctx context.Context) slowlog.Report
	Ring     func() []RingNode
	// Replica is what this node knows of a partition, nil if it has no replica of it.
	Replica func(p *topology.Partition) *Replica
}

// Datacenters lists the data centres of the cluster, the node's own first.
func (n *NodeInfo) Datacenters() []string {
	dcs := []string{n.datacenter()}
	for i := range n.Peers {
		dc := n.Peers[i].datacenter()
		known := false
		for _, d := range dcs {
			known = known || d == dc
		}
		if !known {
			dcs = append(dcs, dc)
		}
	}
	return dcs
}

// NodesIn counts the nodes of a data centre; of all if dc is empty.
func (n *NodeInfo) NodesIn(dc string) int {
	count := 0
	if dc == "" || n.datacenter() == dc {
		count++
	}
	for i := range n.Peers {
		if dc == "" || n.Peers[i].datacenter() == dc {
			count++
		}
	}
	return count
}

func (e *Endpoint) datacenter() string {
	if e.Datacenter == "" {
		return DefaultDatacenter
	}
	return e.Datacenter
}

func (e *Endpoint) rack() string {
	if e.Rack == "" {
		return DefaultRack
	}
	return e.Rack
}

// Replicas is the effective replication of every table, 0 if the node stands alone.
func (n *NodeInfo) Replicas() int {
	if n.EffectiveReplication == nil {
		return 0
	}
	return n.EffectiveReplication()
}

// Replication is what clients are shown as the replication of a keyspace: the declared one, or in a cluster the
// effective one.
//
// Drivers compute from it which nodes have a row, each in the same way: NetworkTopologyStrategy walks the ring from the
// row's token and takes the first node of every rack, then those that it passed over, until it has as many as the data
// centre is to have. So placement finds the same nodes if it prefers nodes in ring order, those of new zones first.
// With one rack that is the next distinct nodes, as SimpleStrategy has it; with several, SimpleStrategy would send
// clients to nodes in zones that have enough replicas already.
func (n *NodeInfo) Replication(ks *schema.Keyspace) map[string]string {
	replicas := n.Replicas()
	if replicas <= 0 || schema.IsLocalSystem(ks.Name) || schema.IsVirtualSystem(ks.Name) {
		return ks.Replication
	}
	return map[string]string{"class": "org.apache.cassandra.locator.NetworkTopologyStrategy",
		n.datacenter(): strconv.Itoa(replicas)}
}

// Declares reports whether the replication that a keyspace declares asks for as many replicas as there are in this
// node's data centre.
func (n *NodeInfo) Declares(ks *schema.Keyspace) bool {
	factor := ks.Replication["replication_factor"]
	if schema.StrategyName(ks.Replication) == "NetworkTopologyStrategy" {
		factor = ks.Replication[n.datacenter()]
	}
	return factor == strconv.Itoa(n.Replicas())
}
