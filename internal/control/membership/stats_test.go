// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/peers"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestWeights checks that a partition has the size of its largest replica and that a silent node keeps its last
// statistics. An impossible load must be ignored, and a node that has left must be removed.
func TestWeights(t *testing.T) {
	a, b := &meta.Node{ID: topology.NodeID{1}}, &meta.Node{ID: topology.NodeID{2}}
	nodes := []*meta.Node{a, b}
	var w ClusterStats
	w.update(nodes, map[topology.NodeID]peers.NodeStats{
		a.ID: {Capacity: 7, Replicas: []peers.ReplicaStats{{Partition: 1, Bytes: 5, Load: 1}}},
		b.ID: {Capacity: 9, Replicas: []peers.ReplicaStats{{Partition: 1, Bytes: 3, Load: 2}, {Partition: 2,
			Bytes: 1}}},
	})
	w.update(nodes, map[topology.NodeID]peers.NodeStats{
		a.ID: {Capacity: 8, Replicas: []peers.ReplicaStats{{Partition: 1, Bytes: 6, Load: 1<<64 - 1}}},
	})
	sizes, capacity := w.get()
	if len(sizes) != 2 || sizes[1] != (placement.Size{Bytes: 6, Load: 2}) || sizes[2].Bytes != 1 ||
		capacity[a.ID] != 8 || capacity[b.ID] != 9 {
		t.Errorf("%v %v", sizes, capacity)
	}
	b.State = meta.Left
	w.update(nodes, nil)
	if sizes, capacity = w.get(); len(sizes) != 1 || len(capacity) != 1 {
		t.Errorf("%v %v", sizes, capacity)
	}
}
