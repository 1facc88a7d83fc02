// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// PlacementPin fixes the nodes of a partition's voters until it expires, regardless of balance. A pin is set if an
// operator has moved a replica, or if the partition will be merged with a neighbor.
type PlacementPin struct {
	// Each node holds one voter. Nodes lists the nodes in order of preference for the leader. A replica on another node
	// is replaced by a replica on a listed node that has no replica. A pin does not change the number of replicas.
	Nodes []NodeID
	// Until is the expiration time in milliseconds since 1970.
	Until int64
	// MergeWith is the neighbor with which the partition will merge once the replicas of both partitions are on the
	// same nodes. MergeWith is 0 if no merge is planned. Cause is the reason for the merge. The neighbor has a
	// matching pin.
	MergeWith PartitionID
	Cause     Cause
}

// pinNodesMax is the maximum number of nodes in a pin.
const pinNodesMax = 16

// withoutMerge returns the pin that remains after an attempted merge. If the pin was made for the merge, withoutMerge
// returns nil.
func (w *PlacementPin) withoutMerge() *PlacementPin {
	if w == nil || w.MergeWith != 0 {
		return nil
	}
	return w
}

// Active reports whether the pin is in effect. A nil pin is not active.
func (w *PlacementPin) Active(now time.Time) bool { return w != nil && now.UnixMilli() < w.Until }

// WithPin replaces the pin of a partition. A nil pin removes it.
func (s *Snapshot) WithPin(id PartitionID, w *PlacementPin) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil {
		return nil, fmt.Errorf("partition %d does not exist", id)
	}
	if w != nil {
		if err := w.validate(); err != nil {
			return nil, fmt.Errorf("partition %d: %w", id, err)
		}
		w = &PlacementPin{slices.Clone(w.Nodes), w.Until, w.MergeWith, w.Cause}
	}
	changed := *p
	changed.Pin = w
	return with(s, &changed), nil
}

// WithLead sets the node that should preferably lead a partition. The zero node removes the preference.
func (s *Snapshot) WithLead(id PartitionID, node NodeID) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil {
		return nil, fmt.Errorf("partition %d does not exist", id)
	}
	changed := *p
	changed.Lead = node
	return with(s, &changed), nil
}

func (w *PlacementPin) validate() error {
	if len(w.Nodes) == 0 || len(w.Nodes) > pinNodesMax {
		return fmt.Errorf("a placement pin must have 1 to %d nodes, not %d", pinNodesMax, len(w.Nodes))
	}
	for i, n := range w.Nodes {
		if slices.Contains(w.Nodes[:i], n) {
			return fmt.Errorf("a placement pin contains node %s twice", n.Short())
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
