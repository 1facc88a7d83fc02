// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"context"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/partitioncount"
)

// countWait is the maximum time for which a request for sizes waits until logical partitions have been counted.
const countWait = time.Second

// ringToken is a token of the ring and the node to which the token belongs.
type ringToken struct {
	token token.Token
	node  topology.NodeID
}

// SizeEstimator estimates the sizes of partitions and counts logical partitions.
type SizeEstimator struct {
	src    Sources
	self   topology.NodeID
	tokens []token.Token
	counts *partitioncount.Counter
}

// NewSizeEstimator returns a SizeEstimator. tokens are the ring tokens of this node until the cluster assigns other
// tokens.
func NewSizeEstimator(src Sources, self topology.NodeID, tokens []token.Token) *SizeEstimator {
	return &SizeEstimator{src: src, self: self, tokens: tokens,
		counts: partitioncount.New(src.Store.Statistics, src.Host, src.Clock)}
}

// CountPartitions counts the logical partitions of the local replicas until ctx ends.
func (s *SizeEstimator) CountPartitions(ctx context.Context) {
	s.counts.Run(ctx, func() (out []token.Token) {
		for _, p := range s.ring() {
			out = append(out, p.token)
		}
		return out
	})
}

// PartitionCounts returns the counter of logical partitions.
func (s *SizeEstimator) PartitionCounts() *partitioncount.Counter { return s.counts }

// ring returns the tokens of all nodes in ascending order.
func (s *SizeEstimator) ring() []ringToken {
	var out []ringToken
	add := func(node topology.NodeID, tokens []token.Token) {
		for _, t := range tokens {
			out = append(out, ringToken{t, node})
		}
	}
	own := s.tokens
	for _, node := range s.src.Metadata.State().Nodes {
		switch {
		case node.State == meta.Left:
		case node.ID != s.self:
			add(node.ID, node.Tokens)
		case node.Tokens != nil:
			own = node.Tokens
		}
	}
	add(s.self, own)
	slices.SortFunc(out, func(a, b ringToken) int { return a.token.Compare(b.token) })
	return out
}

// SizeEstimates returns the estimates that this node reports. Exactly one node reports each piece of a table. This
// node is the first node, in ring order after the end of the piece, that has a replica of the piece.
func (s *SizeEstimator) SizeEstimates(ctx context.Context) []catalog.SizeEstimate {
	s.counts.Refresh(ctx, countWait)
	ring := s.ring()
	var out []catalog.SizeEstimate
	for p := range s.src.Metadata.State().Topology.All() {
		count := s.counts.Latest(p.ID)
		if count == nil {
			continue
		}
		for _, piece := range count.Pieces {
			if s.src.Queries != nil && reportingNode(p, ring, piece.Range.Last()) != s.self {
				continue
			}
			out = append(out, catalog.SizeEstimate{Table: p.Table, Range: piece.Range, Partitions: piece.Partitions,
				MeanBytes: piece.MeanBytes})
		}
	}
	return out
}

// reportingNode returns the node that reports the piece of a partition that ends with the token last.
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

// Replica describes the local replica of a partition. It returns nil if this node has no replica.
func (s *SizeEstimator) Replica(p *topology.Partition) *catalog.Replica {
	r := s.src.Host.Replica(p.ID)
	if r == nil {
		return nil
	}
	out := &catalog.Replica{}
	if leader, ok := r.Leader(); ok {
		out.Leader = leader
	}
	if e, err := s.src.Store.Estimate(p.Span.Keys(p.Table)); err == nil {
		out.DiskBytes, out.LogicalPartitions = e.Bytes, e.Partitions
	}
	if counted := s.counts.Latest(p.ID); counted != nil {
		out.LogicalPartitions = counted.Partitions
	}
	c := r.Load().Counts()
	out.Reads, out.Writes = c.Reads, c.Writes
	return out
}
