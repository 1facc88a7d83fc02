// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Size is the size and the load of a replica.
type Size struct {
	// Bytes is the size on disk.
	Bytes float64
	// Load is in request units per second.
	Load float64
}

// These are the limits of balance. A node gives away replicas if it exceeds its fair share by Tolerance and BytesSlack
// or LoadSlack. It takes replicas up to half of this tolerance.
const (
	Tolerance  = 0.1
	BytesSlack = 256 << 20
	LoadSlack  = 1000
	// LowMark is the fraction of a node's fair share below which the node is filled. SpareMark is the fraction that a
	// node retains when it gives away replicas. The gap between both absorbs errors of the sizes.
	LowMark   = 0.75
	SpareMark = 0.8
	// InFlightMax is the maximum number of bytes in flight to a node for balance. One replica is always permitted.
	InFlightMax = 64 << 30
)

// scheduler makes decisions. It caches results between decisions.
type scheduler struct {
	state    *meta.State
	view     *View
	nodeInfo []nodeInfo
	regions  map[string]*region
	nodes    []*node // in the order of state
	at       map[topology.NodeID]*node
	zones    int
	// sets holds all replica sets of the topology known, in ascending order of partitions. The sizes of the sets are
	// from the field sizes.
	sets     []setInfo
	known    *topology.Snapshot
	sizes    map[topology.PartitionID]Size
	balancer balancer
	// busy is the number of sets that are changing, and most is the maximum of this number.
	busy, most int
}

// node describes a node after all changes in progress have finished.
type node struct {
	*meta.Node
	index    int // index in the nodes of the state
	zone     int // equal for all nodes in the same zone
	region   *region
	stays    bool    // result of View.stays
	weight   float64 // capacity relative to the average
	has      Size
	replicas int
	coming   Size // part of has that is in flight
	// gives holds the sets whose replicas the node may give away. It is valid if giving is set.
	gives  []*setInfo
	giving bool
	// leads reports whether the node may lead. led is the load of the sets whose preferred leader is the node.
	leads bool
	led   float64
}

// region holds the nodes of a region that placement considers.
type region struct {
	ring  *Ring
	on    []*node // nodes in the order of the ring
	nodes []*meta.Node
	// target is the number of voters of a set.
	target int
	// away reports whether all nodes of the region are down. The replica sets of the region then remain unchanged.
	away bool
	// has is the size of all replicas in the region. weight is the sum of the weights of the region's nodes in use.
	has    Size
	weight float64
	// slack is the number of bytes that a node may have beyond the tolerance.
	slack float64
	// led is the total led load of the region's nodes. leads is the number of nodes that may lead.
	led, leads float64
	// unsteady reports whether a node of the region is down, stopping, or restarting.
	unsteady bool
}

// survey computes the load of each node.
func (d *scheduler) survey() {
	var known, capacity float64
	for _, r := range d.regions {
		r.has, r.weight, r.slack = Size{}, 0, BytesSlack
		if d.view.BytesSlack > 0 {
			r.slack = d.view.BytesSlack
		}
	}
	for _, n := range d.nodes {
		n.has, n.coming, n.replicas = Size{}, Size{}, 0
		if c := float64(d.view.Capacity[n.ID]); c > 0 {
			known, capacity = known+1, capacity+c
		}
	}
	for _, n := range d.nodes {
		n.weight = 1
		if c := float64(d.view.Capacity[n.ID]); c > 0 {
			n.weight = c / (capacity / known)
		}
		if n.stays {
			n.region.weight += n.weight
		}
	}
	for i := range d.sets {
		s := &d.sets[i]
		for j, n := range s.on {
			state := s.set.Replicas[j].State
			if state == topology.Leaving || n == nil {
				continue
			}
			n.replicas++
			n.has = n.has.plus(s.size)
			n.region.has = n.region.has.plus(s.size)
			if state == topology.Joining {
				n.coming = n.coming.plus(s.size)
			}
		}
	}
	d.balancer = balancer{scheduler: d}
	d.balancer.unfair = slices.ContainsFunc(d.nodes, func(n *node) bool {
		r := n.region
		return n.stays && (n.has.Bytes > bytesOf.limit(r, n, 1) || n.has.Load > loadOf.limit(r, n, 1) || n.low(r))
	})
}

func (s Size) plus(o Size) Size { return Size{s.Bytes + o.Bytes, s.Load + o.Load} }

func (s Size) minus(o Size) Size { return Size{s.Bytes - o.Bytes, s.Load - o.Load} }

// take adds a replica to a node.
func (n *node) take(s Size) {
	n.replicas++
	n.has, n.coming = n.has.plus(s), n.coming.plus(s)
}

// give removes a replica from a node.
func (n *node) give(s Size) {
	n.replicas--
	n.has = n.has.minus(s)
}

// filled returns the bytes of a node in units of 5 % of its fair share. It returns 0 in a nearly empty cluster.
func (n *node) filled(r *region) int {
	fair := r.has.Bytes / max(r.weight, 1) * n.weight
	if fair < r.slack {
		return 0
	}
	return int(20 * n.has.Bytes / fair)
}

// low reports whether a node must be filled.
func (n *node) low(r *region) bool { return n.has.Bytes < bytesOf.limit(r, n, 0)*LowMark-r.slack }

// bound returns the maximum of a node's bytes or load, including the given part of the tolerance.
func bound(all, weight, weights, slack, part float64) float64 {
	return all/max(weights, weight)*weight*(1+part*Tolerance) + part*slack
}

// fits reports whether the bytes and the load of a node permit another replica.
func (r *region) fits(n *node, s Size) bool { return r.fitsBytes(n, s) && r.fitsLoad(n, s) }

func (r *region) fitsBytes(n *node, s Size) bool {
	return n.has.Bytes+s.Bytes <= bound(r.has.Bytes, n.weight, r.weight, r.slack, 0.5)
}

func (r *region) fitsLoad(n *node, s Size) bool {
	return n.has.Load+s.Load <= bound(r.has.Load, 1, float64(len(r.nodes)), LoadSlack, 0.5)
}
