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
	// LowMark is the part of its fair share below which a node is filled, and below which nothing else brings it.
	LowMark = 0.75
	// FlightMax bounds the bytes that balance has on their way to a node; one replica may always be.
	FlightMax = 64 << 30
)

// scheduler is one call of Schedule.
type scheduler struct {
	state    *meta.State
	view     *View
	regions  map[string]*region
	at       map[topology.NodeID]*node
	balancer balancer
	// busy counts the sets that change, most bounds them.
	busy, most int
}

// node is what a node holds when all that is under way has ended.
type node struct {
	*meta.Node
	index    int
	stays    bool    // as View.stays says
	weight   float64 // its part in what is shared by size
	has      Size
	replicas int
	coming   Size // of has, what is on its way
}

// region is the nodes of a region that count.
type region struct {
	ring  *Ring
	nodes []*meta.Node
	// target is how many voters a set is to have.
	target int
	// has is what all replicas of the region take, weight the sum of the nodes that stay.
	has    Size
	weight float64
}

func newScheduler(state *meta.State, view *View) *scheduler {
	d := &scheduler{state: state, view: view, regions: map[string]*region{}}
	d.balancer.scheduler = d
	d.most = view.ChangesMax
	if d.most <= 0 {
		d.most = max(ChangesMax, len(state.Nodes))
	}
	d.survey()
	d.balancer.unfair = slices.ContainsFunc(state.Nodes, func(n *meta.Node) bool {
		at, r := d.at[n.ID], d.region(n.Region)
		return at.stays && (at.has.Bytes > bytesOf.limit(r, at, 1) || at.has.Load > loadOf.limit(r, at, 1) || at.low(r))
	})
	return d
}

// survey adds up what each node has.
func (d *scheduler) survey() {
	d.at = make(map[topology.NodeID]*node, len(d.state.Nodes))
	var known, capacity float64
	for i, n := range d.state.Nodes {
		d.at[n.ID] = &node{Node: n, index: i, stays: d.view.stays(n)}
		if c := float64(d.view.Capacity[n.ID]); c > 0 {
			known, capacity = known+1, capacity+c
		}
	}
	for _, n := range d.state.Nodes {
		switch c := float64(d.view.Capacity[n.ID]); {
		case c > 0:
			d.at[n.ID].weight = c / (capacity / known)
		default:
			d.at[n.ID].weight = 1
		}
		if r := d.region(n.Region); d.at[n.ID].stays {
			r.weight += d.at[n.ID].weight
		}
	}
	for p := range d.state.Map.All() {
		size := d.size(p)
		for i := range p.Sets {
			r := d.region(p.Sets[i].Region)
			for _, m := range p.Sets[i].Replicas {
				n := d.at[m.Node]
				if m.State == topology.Leaving || n == nil {
					continue
				}
				n.replicas++
				n.has = n.has.plus(size)
				r.has = r.has.plus(size)
				if m.State == topology.Joining {
					n.coming = n.coming.plus(size)
				}
			}
		}
	}
}

func (d *scheduler) size(p *topology.Partition) Size { return d.view.Sizes[p.ID] }

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
	if fair < BytesSlack {
		return 0
	}
	return int(20 * n.has.Bytes / fair)
}

// low reports whether a node has so little that it is filled.
func (n *node) low(r *region) bool { return n.has.Bytes < bytesOf.limit(r, n, 0)*LowMark-BytesSlack }

// bound is how much a node may have, of bytes or of load, if it may be above its share by some part of the tolerance.
func bound(all, weight, weights, slack, part float64) float64 {
	return all/max(weights, weight)*weight*(1+part*Tolerance) + part*slack
}

// fits reports whether a node may be given a replica by balance.
func (r *region) fits(n *node, s Size) bool { return r.fitsBytes(n, s) && r.fitsLoad(n, s) }

func (r *region) fitsBytes(n *node, s Size) bool {
	return n.has.Bytes+s.Bytes <= bound(r.has.Bytes, n.weight, r.weight, BytesSlack, 0.5)
}

func (r *region) fitsLoad(n *node, s Size) bool {
	return n.has.Load+s.Load <= bound(r.has.Load, 1, float64(len(r.nodes)), LoadSlack, 0.5)
}

func (d *scheduler) region(name string) *region {
	r := d.regions[name]
	if r != nil {
		return r
	}
	r = &region{}
	for _, n := range d.state.Nodes {
		if n.Region == name && d.view.stays(n) {
			r.nodes = append(r.nodes, n)
		}
	}
	r.ring = NewRing(r.nodes)
	r.target = voters(len(r.nodes))
	d.regions[name] = r
	return r
}
