// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/throughput"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TablePlacer determines the partitions and the nodes of new tables. A cluster places all tables in its home region.
type TablePlacer struct {
	Node topology.NodeID
	// Region is the region of partitions on a standalone node.
	Region string
	// Partitions is the number of partitions of a new table. The throughput of the table may require another number.
	Partitions int
	// Member is nil on a standalone node.
	Member *Member
}

// Place returns the partitions of a new table and their nodes.
func (p *TablePlacer) Place(s *meta.State, t *schema.Table) ([]topology.Piece, error) {
	parts := p.Partitions
	whole := parts > 1
	if n := throughput.InitialPartitions(s, t); n > 0 {
		parts, whole = n, true // ring boundaries would give some partitions only a small part of the throughput
	}
	if schema.IsSystem(t.Keyspace) {
		parts, whole = 1, true
	}
	if p.Member == nil {
		here := []topology.Place{{Region: p.Region, Nodes: []topology.NodeID{p.Node}}}
		return topology.Equal(parts, here), nil
	}
	view := p.Member.View()
	home := []string{topology.HomeRegion(s.Topology)}
	return placement.Place(s, &view, home, placement.Table{ID: t.ID, Parts: parts, Whole: whole}), nil
}
