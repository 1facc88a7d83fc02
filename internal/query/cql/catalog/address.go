// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// Address returns the address at which clients reach a node, for events and for system.peers. If the address is
// unknown, ok is false. local is the address at which the requesting client has reached this node, or an invalid
// address.
//
// If a node listens for clients on all addresses, Address assumes that clients reach the node at its internal address.
// If the internal address is a loopback address, all nodes run on one machine, and Address uses the address local.
func (e *Endpoint) Address(local netip.AddrPort) (a netip.AddrPort, ok bool) {
	port := e.RPC.Port()
	if port == 0 {
		return netip.AddrPort{}, false
	}
	switch listen := e.Listen.Addr().Unmap(); {
	case specified(e.RPC.Addr()):
		return e.RPC, true
	case !specified(listen):
		return netip.AddrPort{}, false
	case listen.IsLoopback() && specified(local.Addr()):
		return netip.AddrPortFrom(local.Addr().Unmap(), port), true
	default:
		return netip.AddrPortFrom(listen, port), true
	}
}

func specified(a netip.Addr) bool { return a.IsValid() && !a.IsUnspecified() }

// ownAddress returns the address of this node for a client. If the node does not know its address, ownAddress returns
// the address that the client has dialed.
func (e *Endpoint) ownAddress(local netip.AddrPort) netip.AddrPort {
	if !specified(e.RPC.Addr()) && specified(local.Addr()) &&
		(!specified(e.Listen.Addr()) || e.Listen.Addr().IsLoopback()) {
		return netip.AddrPortFrom(local.Addr().Unmap(), local.Port())
	}
	if a, ok := e.Address(local); ok {
		return a
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), e.RPC.Port())
}

// internal returns the internal address of a node. A standalone node uses its client address.
func (e *Endpoint) internal(rpc netip.AddrPort) netip.AddrPort {
	if specified(e.Listen.Addr()) {
		return e.Listen
	}
	return rpc
}

// peer holds the internal address and the client address of another node.
type peer struct {
	*Endpoint
	node, rpc netip.AddrPort
}

// shownPeers returns the nodes that have joined and are reachable, by host ID. If clients received other nodes, drivers
// would log a warning at each refresh or fail.
func (n *NodeInfo) shownPeers(local netip.AddrPort) []peer {
	peers := make([]peer, 0, len(n.Peers))
	for i := range n.Peers {
		e := &n.Peers[i]
		rpc, ok := e.Address(local)
		if !ok || len(e.Tokens) == 0 || e.HostID == (schema.UUID{}) || e.HostID == n.HostID {
			continue
		}
		peers = append(peers, peer{e, e.internal(rpc), rpc})
	}
	slices.SortFunc(peers, func(a, b peer) int { return bytes.Compare(a.HostID[:], b.HostID[:]) })
	return slices.CompactFunc(peers, func(a, b peer) bool { return a.HostID == b.HostID })
}
