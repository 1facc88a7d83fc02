// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// distant is the region of the last node in runs with regions. All other nodes are in region.
const distant = "distant"

// homeNodes returns the number of nodes in the home region. These nodes come first.
func (w *simulation) homeNodes() int {
	if w.plan.With.Regions {
		return nodeCount - 1
	}
	return nodeCount
}

// region returns the region of a node.
func (n *node) region() string {
	if n.ID >= n.w.homeNodes() {
		return distant
	}
	return region
}

// beginRegions sets the latencies between the regions. Each pair of nodes has its own latency, as in a WAN.
func (w *simulation) beginRegions() {
	home := w.homeNodes()
	for far := home; far < nodeCount; far++ {
		for near := range home {
			w.Net.SetDistance(near, far, w.Between(20*time.Millisecond, 75*time.Millisecond))
		}
	}
}

// checkRegions checks that the nodes of the distant region neither hold rows nor vote.
func (w *simulation) checkRegions() {
	for _, n := range w.nodes[w.homeNodes():] {
		for _, id := range n.parts.IDs() {
			if id != topology.MetaPartition {
				w.Fail("node %d of the distant region has a replica of partition %d", n.ID, id)
			}
		}
		if m := topology.MetaSet(w.newest().Topology).On(n.self()); m == nil || m.State != topology.Learner {
			w.Fail("node %d of the distant region is %v in the meta partition", n.ID, m)
		}
	}
}
