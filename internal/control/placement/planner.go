// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Planner makes repeated calls of Schedule faster by caching the results for unchanged replica sets. It examines all
// sets after a change of the nodes, and all sizes if View.Sizes is a different map. It is not safe for concurrent use.
// The zero value is ready for use.
type Planner struct{ s *scheduler }

// Schedule returns the same result as the function Schedule.
func (p *Planner) Schedule(state *meta.State, view View) []Action {
	if p.s == nil {
		p.s = &scheduler{}
	}
	p.s.begin(state, &view)
	return p.s.schedule()
}

// Schedule returns the replica set changes that are due now, with the most urgent changes first. It must be called
// after every change and periodically. It does not change a changing set unless the change in progress cannot complete.
// A set without a quorum cannot change and does not count toward the limit of concurrent changes.
func Schedule(state *meta.State, view View) []Action { return new(Planner).Schedule(state, view) }

// nodeInfo is the part of a node's state that affects decisions about all replica sets.
type nodeInfo struct {
	*meta.Node
	down, dead bool
}

// begin prepares the scheduler for one decision.
func (d *scheduler) begin(state *meta.State, view *View) {
	picture := make([]nodeInfo, len(state.Nodes))
	for i, n := range state.Nodes {
		picture[i] = nodeInfo{n, view.down(n.ID), view.dead(n.ID)}
	}
	anew := d.nodes == nil || !slices.Equal(picture, d.nodeInfo)
	sized := anew || !sameMap(view.Sizes, d.sizes)
	d.state, d.view, d.nodeInfo, d.sizes = state, view, picture, view.Sizes
	if anew {
		d.rebuildNodes()
		d.sets = d.sets[:0]
		for p := range state.Topology.All() {
			d.add(p)
		}
		slices.SortFunc(d.sets, bySet)
	} else if state.Topology != d.known {
		d.applyChanges(state.Topology.Changes(d.known))
	}
	d.known = state.Topology
	if sized {
		for i := range d.sets {
			d.sets[i].size = d.sizes[d.sets[i].p.ID]
		}
	}
	d.busy, d.most = 0, view.ChangesMax
	if d.most <= 0 {
		d.most = max(ChangesMax, len(state.Nodes))
	}
	d.survey()
}

// sameMap reports whether two immutable maps are the same map.
func sameMap(a, b map[topology.PartitionID]Size) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// applyChanges examines the partitions that have changed in the topology.
func (d *scheduler) applyChanges(changes func(yield func(was, is *topology.Partition) bool)) {
	gone, sorted := false, true
	var come []*topology.Partition // added at the end, because the sets must remain sorted until then
	for was, is := range changes {
		if was != nil && is != nil && len(was.Sets) == len(is.Sets) {
			at := d.find(is.ID)
			for i := range is.Sets {
				d.sets[at+i] = d.examine(is, i)
			}
			continue
		}
		if was != nil {
			for i, at := 0, d.find(was.ID); i < len(was.Sets); i++ {
				d.sets[at+i].set, gone = nil, true
			}
		}
		if is != nil {
			come = append(come, is)
		}
	}
	if gone {
		d.sets = slices.DeleteFunc(d.sets, func(s setInfo) bool { return s.set == nil })
	}
	for _, p := range come {
		sorted = sorted && (len(d.sets) == 0 || d.sets[len(d.sets)-1].p.ID < p.ID)
		d.add(p)
	}
	if !sorted {
		slices.SortFunc(d.sets, bySet)
	}
}

// find returns the index of the first set of a known partition.
func (d *scheduler) find(id topology.PartitionID) int {
	i, _ := slices.BinarySearchFunc(d.sets, id, func(s setInfo, id topology.PartitionID) int {
		return cmp.Compare(s.p.ID, id)
	})
	return i
}

func bySet(a, b setInfo) int {
	return cmp.Or(cmp.Compare(a.p.ID, b.p.ID), cmp.Compare(a.index, b.index))
}

func (d *scheduler) add(p *topology.Partition) {
	for i := range p.Sets {
		d.sets = append(d.sets, d.examine(p, i))
	}
}

// examine computes all properties of a replica set that depend only on the topology and the node states.
func (d *scheduler) examine(p *topology.Partition, index int) setInfo {
	s := setInfo{scheduler: d, p: p, set: &p.Sets[index], index: index, size: d.sizes[p.ID]}
	s.region = d.region(s.set.Region)
	if p.ID != topology.MetaPartition {
		s.later = 1
	}
	s.on = make([]*node, len(s.set.Replicas))
	for i := range s.set.Replicas {
		s.on[i] = d.at[s.set.Replicas[i].Node]
	}
	for i, at := range s.region.ring.preferred(p.Table, p.Span, Replicas) {
		s.home[i] = s.region.on[at]
	}
	if p.Lead != (topology.NodeID{}) {
		s.lead = d.at[p.Lead]
	}
	if p.Split != nil || p.Merge != nil || s.region.away {
		s.fixed = true // the members must not change until the split or merge has ended or a node of the region is up
		return s
	}
	s.count(d.view)
	if !s.quorum {
		return s
	}
	if s.reason, s.needed = s.needs(); s.needed || s.votes != s.region.target || s.alive < s.votes || s.votes < 3 {
		return s
	}
	s.settled = true
	for _, n := range s.home {
		s.away = s.away || n != nil && s.set.On(n.ID) == nil
	}
	return s
}

// rebuildNodes recreates the nodes and regions.
func (d *scheduler) rebuildNodes() {
	d.nodes, d.at = make([]*node, 0, len(d.nodeInfo)), make(map[topology.NodeID]*node, len(d.nodeInfo))
	d.regions = map[string]*region{}
	zones, alive := map[string]int{}, map[string]bool{}
	for i, n := range d.state.Nodes {
		zone, ok := zones[n.Zone]
		if !ok {
			zone = len(zones)
			zones[n.Zone] = zone
		}
		at := &node{Node: n, index: i, zone: zone, stays: d.view.stays(n)}
		d.nodes, d.at[n.ID] = append(d.nodes, at), at
		alive[n.Region] = alive[n.Region] || n.State != meta.Left && !d.nodeInfo[i].down
	}
	d.zones = len(zones)
	for _, n := range d.nodes {
		n.region = d.region(n.Region)
		n.region.away = !alive[n.Region]
	}
}

func (d *scheduler) region(name string) *region {
	r := d.regions[name]
	if r != nil {
		return r
	}
	r = &region{}
	for _, n := range d.state.Nodes {
		if n.Region == name && d.at[n.ID].stays {
			r.nodes = append(r.nodes, n)
		}
	}
	r.ring = NewRing(r.nodes)
	for _, n := range r.ring.nodes {
		r.on = append(r.on, d.at[n.ID])
	}
	r.target = voters(len(r.nodes))
	d.regions[name] = r
	return r
}
