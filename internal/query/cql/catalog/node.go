// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"

	"github.com/ilion-db/ilion/internal/control/advise"
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/slowlog"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Clients receive these constants from system tables.
const (
	NativeProtocolVersion = "5"

	Partitioner = "org.apache.cassandra.dht.Murmur3Partitioner"
	Snitch      = "org.apache.cassandra.locator.SimpleSnitch"
)

// These constants are the default names of the data center and the rack.
const (
	DefaultDatacenter = "datacenter1"
	DefaultRack       = "rack1"
)

// Endpoint describes a node, either this node or a peer.
type Endpoint struct {
	HostID           schema.UUID
	Datacenter, Rack string
	// Listen is the internal address, and RPC is the address for clients. For an unspecified RPC address (0.0.0.0), see
	// Address.
	Listen, RPC netip.AddrPort
	// Tokens holds the tokens of the node in ascending order. A node without tokens has not joined, so clients do not
	// receive it as a peer.
	Tokens []token.Token
	// SchemaVersion is the schema version of the node. If SchemaVersion is zero, clients receive the version of the
	// snapshot.
	SchemaVersion schema.UUID
}

// SizeEstimate is the estimated size of a token range of a table.
type SizeEstimate struct {
	Table      uint32
	Range      token.Range
	Partitions uint64
	// MeanBytes is the mean size of a logical partition.
	MeanBytes uint64
}

// Client is a row of system_views.clients.
type Client struct {
	Remote                    netip.AddrPort
	User                      string
	Version                   uint8
	DriverName, DriverVersion string
	// Options holds the options of the STARTUP message. Keyspace is the keyspace of the last USE statement.
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

// LatencyOperation is an operation with a latency table.
type LatencyOperation uint8

// These operations correspond to the tables coordinator_read_latency, coordinator_scan_latency, and
// coordinator_write_latency.
const (
	Reads LatencyOperation = iota
	Scans
	Writes
)

// Latency is a row of a latency table. All times are in milliseconds.
type Latency struct {
	Count     uint64  `json:"count"`
	Median    float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Slowest   float64 `json:"max_ms"`
	PerSecond float64 `json:"per_second"`
}

// Replica describes a local replica of a physical partition.
type Replica struct {
	// Leader is the node ID of the leader. If the leader is unknown or the node is standalone, Leader is zero.
	Leader topology.NodeID
	// DiskBytes and LogicalPartitions describe the size of the replica. Reads and Writes are the numbers of requests
	// that the replica has served since the node started.
	DiskBytes, LogicalPartitions, Reads, Writes uint64
}

// NodeInfo is the information that a node provides about itself and its peers.
type NodeInfo struct {
	// Release is the Cassandra release that the node reports. The default is 4.0.
	Release *compat.Release
	Endpoint
	ClusterName string
	// Generation is a Unix time in seconds that increases with every start of the node.
	Generation int32
	// Peers holds the other nodes of the cluster in any order, including nodes that are down. Peers must not be
	// modified.
	Peers []Endpoint
	// EffectiveReplication is the actual number of replicas of every table, regardless of the declared replication. It
	// is four, or fewer if the cluster has fewer nodes. If EffectiveReplication is 0, the node is standalone, and
	// clients receive the declared replication.
	EffectiveReplication int
	// Home is the data center of the replicas. If Home is empty, the replicas are in this node's data center.
	Home string
	// Settings holds the effective options of the node.
	Settings map[string]string
	// Metadata is the cluster metadata, including roles, partitions, and index builds. If the metadata is unknown,
	// Metadata is nil.
	Metadata *meta.State
	// Statistics and Diagnostics provide the rows of other virtual tables. If a field is nil, the corresponding tables
	// are empty.
	Statistics  Statistics
	Diagnostics Diagnostics
}

// Statistics provides the statistics of tables, partitions, and users.
type Statistics interface {
	// SizeEstimates returns size estimates of table ranges. Each range is reported by exactly one node, and the ranges
	// of a table cover the ring.
	SizeEstimates(ctx context.Context) []SizeEstimate
	// Latency returns the latency of the requests that this node has coordinated. If the operation has not been
	// executed, it returns false.
	Latency(table uint32, op LatencyOperation) (Latency, bool)
	// Advice returns design advice for tables. Tables that cannot be analyzed in time are omitted.
	Advice(ctx context.Context, tables []*schema.Table) []advise.Report
	// Usage returns the consumption of the cluster's physical partitions.
	Usage(ctx context.Context, q usage.ReportOptions) []usage.Report
	// Users returns the users with the highest consumption in the cluster.
	Users(ctx context.Context) []usage.User
	// ViewLags returns the lag of views, by the ID of the hint index.
	ViewLags() map[uint32]ViewLag
	// Tables returns the statistics of tables by ID. If the time limit has passed, the remaining tables are not
	// sampled.
	Tables(ctx context.Context, tables []*schema.Table) map[uint32]TableStats
	// Replica returns the local replica of a partition, or nil.
	Replica(p *topology.Partition) *Replica
}

// Diagnostics provides information about clients and nodes for operators.
type Diagnostics interface {
	// Clients returns the client connections to this node. PreparedStatements returns the statements that the clients
	// have prepared.
	Clients() []Client
	PreparedStatements() []PreparedStatement
	// BusiestSessions returns the busiest sessions of all nodes.
	BusiestSessions(ctx context.Context) Sessions
	// SlowQueries returns the slow requests of all nodes.
	SlowQueries(ctx context.Context) slowlog.Report
	// Ring returns the nodes that drivers see.
	Ring() []RingNode
}

// Datacenters returns the data centers of the cluster. The first element is the node's own data center.
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

// NodesIn returns the number of nodes in a data center. If dc is empty, it returns the number of all nodes.
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

// Replication returns the keyspace replication that clients receive. For a standalone node, it returns the declared
// replication. In a cluster, it returns the effective replication.
//
// Drivers use this replication to compute the replicas of a row. For NetworkTopologyStrategy, drivers traverse the ring
// from the row's token and select the first node of every rack. Then they select skipped nodes until they have all
// replicas of the data center. Placement selects the same nodes if it prefers nodes in ring order and new zones. With
// several racks, SimpleStrategy would direct clients to nodes in zones that already have enough replicas.
func (n *NodeInfo) Replication(ks *schema.Keyspace) map[string]string {
	replicas := n.EffectiveReplication
	if replicas <= 0 || schema.IsLocalSystem(ks.Name) || schema.IsVirtualSystem(ks.Name) {
		return ks.Replication
	}
	return map[string]string{"class": "org.apache.cassandra.locator.NetworkTopologyStrategy",
		n.home(): strconv.Itoa(replicas)}
}

// home returns the data center of the replicas.
func (n *NodeInfo) home() string {
	if n.Home != "" {
		return n.Home
	}
	return n.datacenter()
}

// Declares reports whether the declared replication of a keyspace equals the actual number of replicas in the home data
// center.
func (n *NodeInfo) Declares(ks *schema.Keyspace) bool {
	factor := ks.Replication["replication_factor"]
	if schema.StrategyName(ks.Replication) == "NetworkTopologyStrategy" {
		factor = ks.Replication[n.home()]
	}
	return factor == strconv.Itoa(n.EffectiveReplication)
}

// TokensPerNode is the number of ring tokens of a node. The value equals Cassandra's default of 16 virtual nodes.
const TokensPerNode = 16

// RingTokens returns the ring tokens of a node in ascending order. The tokens depend only on the node ID.
func RingTokens(node [16]byte) []token.Token {
	out := make([]token.Token, TokensPerNode)
	for i := range out {
		out[i] = token.Hash(binary.BigEndian.AppendUint32(node[:len(node):len(node)], uint32(i)))
	}
	slices.Sort(out)
	return out
}

// NodeEndpoint returns the description of a node that drivers receive.
func NodeEndpoint(node *meta.Node) *Endpoint {
	e := &Endpoint{HostID: schema.UUID(node.ID), Datacenter: node.Region, Rack: node.Zone, Tokens: node.Tokens}
	e.Listen, _ = netip.ParseAddrPort(node.Internal) // an invalid address is ignored
	e.RPC, _ = netip.ParseAddrPort(node.CQL)
	return e
}

// WithNodes returns a copy of n that contains the nodes of the cluster. self is the ID of this node.
func (n NodeInfo) WithNodes(s *meta.State, self topology.NodeID, p *peers.Peers) NodeInfo {
	n.Metadata, n.Peers, n.Home = s, nil, topology.HomeRegion(s.Topology)
	n.EffectiveReplication = placement.EffectiveReplicas(s, n.home())
	for _, node := range s.Nodes {
		switch {
		case node.State == meta.Left:
		case node.ID != self:
			e := NodeEndpoint(node)
			if k, ok := p.Report(node.ID); ok && k.Alive {
				e.SchemaVersion = k.Schema
			}
			n.Peers = append(n.Peers, *e)
		case node.Tokens != nil:
			n.Tokens = node.Tokens
		}
	}
	return n
}
