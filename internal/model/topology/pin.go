// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// PlacementPin says where the voters of a partition are to be, whatever balance would say, until it ends: somebody has
// moved one there by hand, or the partition is to be merged with a neighbour.
type PlacementPin struct {
	// Nodes hold a voter each, in the order in which they are preferred as leaders. A replica on another node makes
	// room for one on a node that has none; nothing is added or removed beyond that.
	Nodes []NodeID
	// Until is its end, in milliseconds since 1970.
	Until int64
	// MergeWith is the neighbour that the partition is to be merged with once the replicas of both are on the same
	// nodes, 0 if there is none; Cause is why. The neighbour has such a wish, too.
	MergeWith PartitionID
	Cause     Cause
}

// pinNodesMax bounds the nodes of a wish.
const pinNodesMax = 16

// withoutMerge is the wish without one to merge, which ends with the attempt: nil if it is nothing else.
func (w *PlacementPin) withoutMerge() *PlacementPin {
	if w == nil || w.MergeWith != 0 {
		return nil
	}
	return w
}

// Active reports whether the wish is in force; that of nil is not.
func (w *PlacementPin) Active(now time.Time) bool { return w != nil && now.UnixMilli() < w.Until }

// WithPin records a wish for a partition in the place of the one it has; nil ends that.
func (s *Snapshot) WithPin(id PartitionID, w *PlacementPin) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil {
		return nil, fmt.Errorf("there is no partition %d", id)
	}
	if w != nil {
		if err := w.validate(); err != nil {
			return nil, fmt.Errorf("partition %d: %w", id, err)
		}
		w = &PlacementPin{slices.Clone(w.Nodes), w.Until, w.MergeWith, w.Cause}
	}
	out := s.next()
	changed := *p
	changed.Pin = w
	out.put(&changed)
	return out, nil
}

// WithLead records which node is to lead a partition if it can; the zero one if placement alone is to say that.
func (s *Snapshot) WithLead(id PartitionID, node NodeID) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil {
		return nil, fmt.Errorf("there is no partition %d", id)
	}
	out := s.next()
	changed := *p
	changed.Lead = node
	out.put(&changed)
	return out, nil
}

func (w *PlacementPin) validate() error {
	if len(w.Nodes) == 0 || len(w.Nodes) > pinNodesMax {
		return fmt.Errorf("a wish names 1 to %d nodes, not %d", pinNodesMax, len(w.Nodes))
	}
	for i, n := range w.Nodes {
		if slices.Contains(w.Nodes[:i], n) {
			return fmt.Errorf("a wish names node %s twice", n.Short())
		}
	}
	return nil
}

func (w *PlacementPin) append(v *codec.Writer) {
	v.Int(w.Until)
	v.Uint(uint64(len(w.Nodes)))
	for _, n := range w.Nodes {
		v.Raw(n[:])
	}
	if w.MergeWith != 0 {
		v.Uint(uint64(w.MergeWith))
		v.Uint(uint64(w.Cause))
	}
}

func (r *decoder) pin() *PlacementPin {
	w := &PlacementPin{Until: r.Int()}
	for range r.Count(len(NodeID{})) {
		var n NodeID
		copy(n[:], r.Take(uint64(len(n))))
		w.Nodes = append(w.Nodes, n)
	}
	if len(r.Rest()) > 0 {
		w.MergeWith, w.Cause = PartitionID(r.Uint()), Cause(min(r.Uint(), 255))
	}
	if r.Err() == nil && w.validate() != nil {
		r.Fail()
	}
	return w
}
