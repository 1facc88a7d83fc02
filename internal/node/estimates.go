// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/catalog"
	"github.com/ilion-db/ilion/internal/replica/partitioncount"
)

// estimatesWait is how long a query of size_estimates waits for partitions to be counted anew.
const estimatesWait = time.Second

// place is a token of the ring with the node that shows it.
type place struct {
	token token.Token
	node  topology.NodeID
}

// ring lists the places of all nodes, ascending.
func (n *Node) ring() []place {
	info := n.nodeInfo()
	var out []place
	for _, e := range append([]catalog.Endpoint{info.Endpoint}, info.Peers...) {
		for _, t := range e.Tokens {
			out = append(out, place{t, topology.NodeID(e.HostID)})
		}
	}
	slices.SortFunc(out, func(a, b place) int { return a.token.Compare(b.token) })
	return out
}

// openCensus makes what counts the logical partitions of this node.
func (n *Node) openCensus() {
	n.largest = &partitioncount.LargestFinder{Store: n.store.Statistics, Replicas: n.host.Replicas,
		Now: func() int64 { return n.clock()().Unix() }}
	n.census = partitioncount.New(partitioncount.Options{
		Store: n.store.Statistics, Replicas: n.host.Replicas, Now: func() int64 { return n.clock()().Unix() },
		Boundaries: func() []token.Token {
			var out []token.Token
			for _, p := range n.ring() {
				out = append(out, p.token)
			}
			return out
		},
	})
}

// sizes are the pieces of all tables that this node tells of. Each piece of a table is told of by one node of the
// cluster: the first, from the piece's end around the ring, that has a replica of it.
func (n *Node) sizes(ctx context.Context) []catalog.SizeEstimate {
	n.census.Refresh(ctx, estimatesWait)
	ring := n.ring()
	self := topology.NodeID(n.store.Identity().Node)
	var out []catalog.SizeEstimate
	for p := range n.coordinator.Topology().All() {
		count := n.census.Latest(p.ID)
		if count == nil {
			continue
		}
		for _, piece := range count.Pieces {
			if n.cluster != nil && teller(p, ring, piece.Range.Last()) != self {
				continue
			}
			out = append(out, catalog.SizeEstimate{Table: p.Table, Range: piece.Range, Partitions: piece.Partitions,
				MeanBytes: piece.MeanBytes})
		}
	}
	return out
}

// teller is the node that tells of the piece of a partition that ends with a token.
func teller(p *topology.Partition, ring []place, last token.Token) topology.NodeID {
	first, _ := slices.BinarySearchFunc(ring, last, func(a place, t token.Token) int { return a.token.Compare(t) })
	for i := range ring {
		node := ring[(first+i)%len(ring)].node
		for s := range p.Sets {
			if r := p.Sets[s].On(node); r != nil && r.State.Votes() {
				return node
			}
		}
	}
	return topology.NodeID{}
}
