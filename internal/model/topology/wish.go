// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
)

// Wish pins the voters of a partition to nodes until it expires, regardless of balancing. It is set if an operator has
// moved a replica manually, or if the partition will be merged with a neighbor.
type Wish struct {
	// Nodes are the nodes that must have a voter, in the order in which they are preferred as leaders. A replica on
	// another node is replaced by a replica on a missing node. No other replicas are added or removed.
	Nodes []NodeID
	// Until is the expiry time, in milliseconds since 1970.
	Until int64
	// With is the neighbor with which the partition will be merged once the replicas of both are on the same nodes, or
	// 0. Cause is the cause of the merge. The neighbor has a matching wish.
	With  PartitionID
	Cause Cause
}

// wishMax is the maximum number of nodes of a wish.
const wishMax = 16

// lasting returns w, or nil if w is part of a merge and so ends with the merge attempt.
func (w *Wish) lasting() *Wish {
	if w == nil || w.With != 0 {
		return nil
	}
	return w
}

// Open reports whether w is not nil and has not expired.
func (w *Wish) Open(now time.Time) bool { return w != nil && now.UnixMilli() < w.Until }

// WithWish sets the wish of a partition. nil removes it.
func (s *Snapshot) WithWish(id PartitionID, w *Wish) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil {
		return nil, fmt.Errorf("partition %d does not exist", id)
	}
	if w != nil {
		if err := w.validate(); err != nil {
			return nil, fmt.Errorf("partition %d: %w", id, err)
		}
		w = &Wish{slices.Clone(w.Nodes), w.Until, w.With, w.Cause}
	}
	out := s.next()
	changed := *p
	changed.Wish = w
	out.put(&changed)
	return out, nil
}

// WithLead sets the preferred leader of a partition. The zero node lets placement alone decide.
func (s *Snapshot) WithLead(id PartitionID, node NodeID) (*Snapshot, error) {
	p := s.byID.get(uint64(id))
	if p == nil {
		return nil, fmt.Errorf("partition %d does not exist", id)
	}
	out := s.next()
	changed := *p
	changed.Lead = node
	out.put(&changed)
	return out, nil
}

func (w *Wish) validate() error {
	if len(w.Nodes) == 0 || len(w.Nodes) > wishMax {
		return fmt.Errorf("a wish names 1 to %d nodes, not %d", wishMax, len(w.Nodes))
	}
	for i, n := range w.Nodes {
		if slices.Contains(w.Nodes[:i], n) {
			return fmt.Errorf("a wish names node %s twice", n.Short())
		}
	}
	return nil
}

func (w *Wish) append(v *codec.Writer) {
	v.Int(w.Until)
	v.Uint(uint64(len(w.Nodes)))
	for _, n := range w.Nodes {
		v.Raw(n[:])
	}
	if w.With != 0 {
		v.Uint(uint64(w.With))
		v.Uint(uint64(w.Cause))
	}
}

func (r *decoder) wish() *Wish {
	w := &Wish{Until: r.Int()}
	for range r.Count(len(NodeID{})) {
		var n NodeID
		copy(n[:], r.Take(uint64(len(n))))
		w.Nodes = append(w.Nodes, n)
	}
	if len(r.Rest()) > 0 {
		w.With, w.Cause = PartitionID(r.Uint()), Cause(min(r.Uint(), 255))
	}
	if r.Err() == nil && w.validate() != nil {
		r.Fail()
	}
	return w
}
