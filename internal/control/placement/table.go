// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Table is a table that is to be made.
type Table struct {
	ID uint32
	// Parts is into how many equal parts it is cut where the ring does not say it.
	Parts int
	// Whole is true for a table that is always cut into Parts.
	Whole bool
}

// Place says how a new table is cut, and where each piece lives: for topology.Snapshot.CutTable. With more nodes than
// replicas in a set the table is cut at the tokens of the nodes, so that what drivers compute is where the rows are.
// Replicas are in the order of the ring, the first leads. Nodes that are down get replicas only where there would be
// fewer than three without: they are made when the node is back.
func Place(state *meta.State, view *View, region string, t Table) []topology.Piece {
	ring := RingOf(state, view, region)
	if len(ring.nodes) == 0 {
		// where it can be made; it moves later
		ring = ringOf(state, region, func(n *meta.Node) bool { return n.State != meta.Left })
	}
	var pieces []topology.Piece
	if len(ring.nodes) > Replicas && !t.Whole {
		pieces = ring.pieces()
	}
	if len(pieces) == 0 || len(pieces) > topology.PartitionsMax {
		pieces = topology.Equal(min(max(t.Parts, 1), topology.PartitionsMax), nil)
	}
	for i := range pieces {
		span := topology.Span{Begin: pieces[i].Begin}
		if i+1 < len(pieces) {
			span.Limit = pieces[i+1].Begin
		}
		nodes := newSetNodes(view, ring, t.ID, span)
		pieces[i].Places = []topology.Place{{Region: region, Nodes: nodes}}
	}
	return pieces
}

// pieces is the ring in pieces that end with a token each, and the piece after the last.
func (r *Ring) pieces() []topology.Piece {
	pieces := []topology.Piece{{}}
	for _, t := range r.tokens {
		begin := t.at + 1
		// no piece for the token that no key has
		if last := pieces[len(pieces)-1].Begin.Ring; t.at > 0 && begin > last {
			pieces = append(pieces, topology.Piece{Begin: topology.Position{Ring: begin}})
		}
	}
	return pieces
}

// newSetNodes chooses the nodes of a new replica set: one, three or four.
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

// byHealth tells nodes that are up and answer from the others.
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
