// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestReplicasOfRegion checks that the replica of a new partition belongs to the set in the region of its node. Its
// group contains only members of this set, although the partition's first set is in another region.
func TestReplicasOfRegion(t *testing.T) {
	w := newTestCluster(t, 1)
	us := topology.Place{Region: "us", Nodes: []topology.NodeID{nodeID(0), nodeID(1), nodeID(2)}}
	eu := topology.Place{Region: "eu", Nodes: []topology.NodeID{{11}, {12}, {13}}}
	m, err := topology.New().AddTable(testTable, 1, []topology.Place{eu, us})
	if err != nil {
		t.Fatal(err)
	}
	list := w.nodes[0].host.Load().ReplicaSets().initialReplicas(m.Partitions(testTable))
	if len(list) != 1 {
		t.Fatalf("%d replicas", len(list))
	}
	set := m.Partition(1).Set("us")
	b := list[0]
	if b.replica != set.Replicas[0].ID || !b.leads || b.meta.Region != "us" || len(b.meta.Voters) != 3 {
		t.Errorf("the replica is %+v, its meta %+v", b, b.meta)
	}
	for i, v := range b.meta.Voters {
		if v.Node != set.Replicas[i].Node {
			t.Errorf("node %d votes", v.Node[0])
		}
	}
}
