// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"net/netip"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/token"
)

// What clients are told of the version: the behaviour is that of this Cassandra.
const (
	ReleaseVersion        = "4.0.11"
	CQLVersion            = "3.4.5"
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
	// Listen is where nodes reach it, RPC where clients do. If the address of RPC is unspecified (0.0.0.0), a client is shown the address
	// it dialled (WithLocal).
	Listen, RPC netip.AddrPort
	// Tokens are its places on the ring, ascending.
	Tokens []token.Token
	// SchemaVersion is the schema it has; the zero value stands for the snapshot's.
	SchemaVersion schema.UUID
}

// Client is a connected client, for system_views.clients.
type Client struct {
	Remote                    netip.AddrPort
	User                      string
	Version                   uint8
	DriverName, DriverVersion string
	Encrypted                 bool
	Requests                  int64
}

// PreparedStatement is a row of system.prepared_statements.
type PreparedStatement struct {
	ID              [16]byte
	Keyspace, Query string
}

// NodeInfo is what the node says of itself and its neighbours. A func that is nil has nothing to tell.
type NodeInfo struct {
	Endpoint
	ClusterName string
	// Generation grows with every start of the node, in seconds since the epoch.
	Generation int32
	// Peers are the other nodes.
	Peers []Endpoint

	Clients  func() []Client
	Prepared func() []PreparedStatement
	Settings func() map[string]string
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

type localKey struct{}

// WithLocal tells the reader at which address the client reached this node; system.local shows it if the node listens on
// all of its addresses.
func WithLocal(ctx context.Context, local netip.AddrPort) context.Context {
	return context.WithValue(ctx, localKey{}, local)
}

// rpc is the address that a client is to be shown for this node.
func (e *Endpoint) rpc(ctx context.Context) netip.AddrPort {
	if e.RPC.IsValid() && !e.RPC.Addr().IsUnspecified() {
		return e.RPC
	}
	if local, ok := ctx.Value(localKey{}).(netip.AddrPort); ok && local.IsValid() {
		return netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), e.RPC.Port())
}
