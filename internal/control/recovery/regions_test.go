// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// withRegion returns the world with some nodes in another region. Each table partition gets a set there, listed first,
// on the nodes in sets.
func (w *testCluster) withRegion(region string, nodes, sets []int) {
	w.t.Helper()
	place := topology.Place{Region: region}
	for _, n := range nodes {
		w.state = w.state.WithNode(&meta.Node{ID: nodeID(n), Internal: "x", Region: region, Zone: "z"})
	}
	for _, n := range sets {
		place.Nodes = append(place.Nodes, nodeID(n))
	}
	m := w.state.Topology
	var pieces []topology.Piece
	for _, p := range m.Partitions(testTable) {
		places := []topology.Place{{Region: "r"}}
		for _, r := range p.Set("r").Replicas {
			places[0].Nodes = append(places[0].Nodes, r.Node)
		}
		if len(sets) > 0 {
			places = slices.Insert(places, 0, place)
		}
		pieces = append(pieces, topology.Piece{Begin: p.Span.Begin, Places: places})
	}
	m, err := m.DropTable(testTable).CutTable(testTable, pieces)
	if err != nil {
		w.t.Fatal(err)
	}
	w.state = w.state.WithTopology(m)
}

// TestRecoverSetOfRegion checks that a recovery replaces the set that has lost its quorum, and keeps the partition's
// set in another region.
func TestRecoverSetOfRegion(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	w.withRegion("eu", []int{11, 12, 13}, []int{11, 12, 13})
	p, err := w.plan([]int{3, 4}, w.survey(1), w.survey(2), w.survey(11), w.survey(12), w.survey(13))
	if err != nil {
		t.Fatal(err)
	}
	part := w.after(p).Topology.Partitions(testTable)[0]
	was := w.state.Topology.Partitions(testTable)[0]
	if set := part.Set("r"); set == nil || len(set.Replicas) != 2 || set.On(nodeID(1)) == nil {
		t.Errorf("the set in r is %+v", set)
	}
	if set := part.Set("eu"); set == nil || !slices.Equal(set.Replicas, was.Set("eu").Replicas) {
		t.Errorf("the set in eu is %+v", set)
	}
}

// TestRecoverRecordsInRegion checks that nodes of another region do not vote for the cluster metadata if a node of its
// region remains. If no such node remains, the metadata must survive, but the rows are lost.
func TestRecoverRecordsInRegion(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	w.withRegion("eu", []int{11, 12}, nil)
	m := w.state.Topology
	for _, n := range []int{11, 12} {
		var err error
		if m, _, err = m.AddMember(topology.MetaPartition, "r", nodeID(n), topology.Learner); err != nil {
			t.Fatal(err)
		}
	}
	w.state = w.state.WithTopology(m)
	p, err := w.plan([]int{3, 4}, w.survey(1), w.survey(2), w.survey(11), w.survey(12))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range topology.MetaSet(w.after(p).Topology).Replicas {
		if votes := r.State == topology.Voter; votes != (r.Node[0] < 10) {
			t.Errorf("node %d is %s", r.Node[0], r.State)
		}
	}
	_, err = w.plan([]int{1, 2, 3, 4}, w.survey(11), w.survey(12))
	if err == nil || !strings.Contains(err.Error(), `no remaining node is in region "r"`) {
		t.Errorf("without nodes of the region of the rows: %v", err)
	}
}
