// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"net/netip"
	"slices"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// Address is where clients reach a node, for events and for system.peers; ok is false if that cannot be told. local is
// the address at which the client that is to know it reached this node, invalid if there is none.
//
// A node that listens on all of its addresses is taken to be reached by clients where nodes reach it. If that is the
// loopback, all nodes are on one machine, and the client reaches them by the address it has used already.
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

// ownAddress is what a client is shown as the address of this node: the one it dialled if the node knows none for
// itself.
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

// internal is the address of a node for other nodes; a node that speaks to nobody shows the one for clients.
func (e *Endpoint) internal(rpc netip.AddrPort) netip.AddrPort {
	if specified(e.Listen.Addr()) {
		return e.Listen
	}
	return rpc
}

// peer is another node as clients see it: by the address for nodes, and the one for clients.
type peer struct {
	*Endpoint
	node, rpc netip.AddrPort
}

// shownPeers lists the nodes that clients can use, by host id: those that have joined and can be reached. Drivers
// ignore others, with a warning for each refresh, or stumble.
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
