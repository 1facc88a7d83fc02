// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Table is a table to create.
type Table struct {
	ID uint32
	// Parts is the number of equal partitions. It is used if the ring does not determine the partitions.
	Parts int
	// Whole reports whether the table always has Parts partitions.
	Whole bool
}

// Place returns the partitions of a new table and their nodes, for topology.Snapshot.CutTable. If the region has more
// nodes than a set has replicas, Place partitions the table at the tokens of the nodes, so that rows are on the nodes
// that drivers compute. Replicas are in ring order, starting with the leader. Down nodes get replicas only if fewer
// than three other nodes are available. These replicas are created when the nodes are up again.
//
// Each partition gets a replica set in every region. The first region is the home region, whose nodes determine the
// partitions.
func Place(state *meta.State, view *View, regions []string, t Table) []topology.Piece {
	rings := make([]*Ring, len(regions))
	for i, region := range regions {
		rings[i] = RingOf(state, view, region)
		if len(rings[i].nodes) == 0 {
			// No node can take replicas now. The replicas move later.
			rings[i] = ringOf(state, region, func(n *meta.Node) bool { return n.State != meta.Left })
		}
	}
	var pieces []topology.Piece
	if len(rings[0].nodes) > Replicas && !t.Whole {
		pieces = rings[0].pieces()
	}
	if len(pieces) == 0 || len(pieces) > topology.PartitionsMax {
		pieces = topology.Equal(min(max(t.Parts, 1), topology.PartitionsMax), nil)
	}
	for i := range pieces {
		span := topology.Span{Begin: pieces[i].Begin}
		if i+1 < len(pieces) {
			span.Limit = pieces[i+1].Begin
		}
		pieces[i].Places = nil
		for k, region := range regions {
			pieces[i].Places = append(pieces[i].Places, topology.Place{Region: region,
				Nodes: newSetNodes(view, rings[k], t.ID, span)})
		}
	}
	return pieces
}

// pieces divides the ring after each token.
func (r *Ring) pieces() []topology.Piece {
	pieces := []topology.Piece{{}}
	for _, t := range r.tokens {
		begin := t.at + 1
		// no partition contains only the token that no key has
		if last := pieces[len(pieces)-1].Begin.Ring; t.at > 0 && begin > last {
			pieces = append(pieces, topology.Piece{Begin: topology.Position{Ring: begin}})
		}
	}
	return pieces
}

// newSetNodes selects the nodes of a new replica set: one, three, or four.
func newSetNodes(view *View, ring *Ring, table uint32, span topology.Span) []topology.NodeID {
	well, rest := ring.byHealth(view, ring.preferred(table, span, Replicas))
	if len(well) < Replicas {
		well, rest = ring.byHealth(view, ring.preferred(table, span, len(ring.nodes)))
	}
	switch {
	case len(well) >= 3:
		return well[:min(len(well), Replicas)]
	case len(well)+len(rest) >= 3:
		return append(well, rest[:3-len(well)]...)
	case len(well)+len(rest) == 0:
		return nil
	}
	return append(well, rest...)[:1]
}

// byHealth separates the live nodes in state Up from all other nodes.
func (r *Ring) byHealth(view *View, order []int) (well, rest []topology.NodeID) {
	for _, i := range order {
		if n := r.nodes[i]; n.State == meta.Up && !view.down(n.ID) {
			well = append(well, n.ID)
		} else {
			rest = append(rest, n.ID)
		}
	}
	return well, rest
}
