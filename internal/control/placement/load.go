// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Size is what a replica of a partition takes.
type Size struct {
	// Bytes are those on disk.
	Bytes float64
	// Load is in request units a second.
	Load float64
}

// The bounds of balance. A node may have more than its fair share by Tolerance and BytesSlack, or LoadSlack, before it
// gives replicas away; it is given none that would bring it above half of that.
const (
	Tolerance  = 0.1
	BytesSlack = 256 << 20
	LoadSlack  = 1000
	// LowMark is the part of its fair share below which a node is filled, SpareMark that below which nothing else
	// brings it: between them sizes may err.
	LowMark   = 0.75
	SpareMark = 0.8
	// InFlightMax bounds the bytes that balance has on their way to a node; one replica may always be.
	InFlightMax = 64 << 30
)

// scheduler is one decision, with what was found out for those before it.
type scheduler struct {
	state    *meta.State
	view     *View
	nodeInfo []nodeInfo
	regions  map[string]*region
	nodes    []*node // as those of state
	at       map[topology.NodeID]*node
	zones    int
	// sets are all replica sets of the map known, ascending by partition, with the sizes of sizes.
	sets     []setInfo
	known    *topology.Snapshot
	sizes    map[topology.PartitionID]Size
	balancer balancer
	// busy counts the sets that change, most bounds them.
	busy, most int
}

// node is what a node holds when all that is under way has ended.
type node struct {
	*meta.Node
	index    int // in the nodes of the state
	zone     int // equal for those of one zone
	region   *region
	stays    bool    // as View.stays says
	weight   float64 // its part in what is shared by size
	has      Size
	replicas int
	coming   Size // of has, what is on its way
	// gives are the sets of which it may give its replica away, if it is to give any.
	gives  []*setInfo
	giving bool
	// leads is set if it may lead, and led is the load of what it is to lead.
	leads bool
	led   float64
}

// region is the nodes of a region that count.
type region struct {
	ring  *Ring
	on    []*node // as those of the ring
	nodes []*meta.Node
	// target is how many voters a set is to have.
	target int
	// has is what all replicas of the region take, weight the sum of the nodes that stay.
	has    Size
	weight float64
	// slack is how many bytes a node may have beyond the tolerance.
	slack float64
	// led is the load of what its nodes lead, leads how many may.
	led, leads float64
}

// survey adds up what each node has.
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
			s.region.has = s.region.has.plus(s.size)
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

// take notes that a node is given a replica.
func (n *node) take(s Size) {
	n.replicas++
	n.has, n.coming = n.has.plus(s), n.coming.plus(s)
}

// give notes that a node gives one away.
func (n *node) give(s Size) {
	n.replicas--
	n.has = n.has.minus(s)
}

// filled is how full a node is, in twentieths of its fair share; 0 in a cluster that is about empty.
func (n *node) filled(r *region) int {
	fair := r.has.Bytes / max(r.weight, 1) * n.weight
	if fair < r.slack {
		return 0
	}
	return int(20 * n.has.Bytes / fair)
}

// low reports whether a node has so little that it is filled.
func (n *node) low(r *region) bool { return n.has.Bytes < bytesOf.limit(r, n, 0)*LowMark-r.slack }

// bound is how much a node may have, of bytes or of load, if it may be above its share by some part of the tolerance.
func bound(all, weight, weights, slack, part float64) float64 {
	return all/max(weights, weight)*weight*(1+part*Tolerance) + part*slack
}

// fits reports whether a node may be given a replica by balance.
func (r *region) fits(n *node, s Size) bool { return r.fitsBytes(n, s) && r.fitsLoad(n, s) }

func (r *region) fitsBytes(n *node, s Size) bool {
	return n.has.Bytes+s.Bytes <= bound(r.has.Bytes, n.weight, r.weight, r.slack, 0.5)
}

func (r *region) fitsLoad(n *node, s Size) bool {
	return n.has.Load+s.Load <= bound(r.has.Load, 1, float64(len(r.nodes)), LoadSlack, 0.5)
}
