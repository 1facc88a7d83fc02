// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/partitioncount"
)

// estimatesWait is how long a query of size_estimates waits for partitions to be counted.
const estimatesWait = time.Second

// ringToken is a token of the ring and its node.
type ringToken struct {
	token token.Token
	node  topology.NodeID
}

// ring returns the tokens of all nodes in ascending order.
func (n *Node) ring() []ringToken {
	info := n.nodeInfo()
	var out []ringToken
	for _, e := range append([]catalog.Endpoint{info.Endpoint}, info.Peers...) {
		for _, t := range e.Tokens {
			out = append(out, ringToken{t, topology.NodeID(e.HostID)})
		}
	}
	slices.SortFunc(out, func(a, b ringToken) int { return a.token.Compare(b.token) })
	return out
}

// openCensus creates the counters of logical partitions.
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

// sizeEstimates returns the estimates that this node reports. One node reports each piece of a table: the first node
// from the piece's end around the ring that has a replica of it.
func (n *Node) sizeEstimates(ctx context.Context) []catalog.SizeEstimate {
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
			if n.cluster != nil && reportingNode(p, ring, piece.Range.Last()) != self {
				continue
			}
			out = append(out, catalog.SizeEstimate{Table: p.Table, Range: piece.Range, Partitions: piece.Partitions,
				MeanBytes: piece.MeanBytes})
		}
	}
	return out
}

// reportingNode returns the node that reports the piece of a partition that ends with a token.
func reportingNode(p *topology.Partition, ring []ringToken, last token.Token) topology.NodeID {
	first, _ := slices.BinarySearchFunc(ring, last, func(a ringToken, t token.Token) int { return a.token.Compare(t) })
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
