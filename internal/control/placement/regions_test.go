// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// region returns the region of a node. Nodes 1 to 9 are in us, and nodes 11 to 19 are in eu.
func regionOf(n byte) string {
	if n > 10 {
		return "eu"
	}
	return "us"
}

func at(n byte) topology.NodeID { return topology.NodeID{n} }

// twoRegions returns a cluster with the given nodes. The meta partition votes on nodes 1 to 4. Table 1024 has a set in
// eu on nodes 11 to 14, listed first, and a set in us on nodes 1 to 4.
func twoRegions(t *testing.T, nodes ...byte) *meta.State {
	t.Helper()
	s := meta.Empty()
	for _, n := range nodes {
		region := regionOf(n)
		s = s.WithNode(&meta.Node{ID: at(n), Region: region, Zone: "z",
			Tokens: []token.Token{NextToken(s.Nodes, region)}})
	}
	us := topology.Place{Region: "us", Nodes: []topology.NodeID{at(1), at(2), at(3), at(4)}}
	eu := topology.Place{Region: "eu", Nodes: []topology.NodeID{at(11), at(12), at(13), at(14)}}
	m, err := s.Topology.AddMeta([]topology.Place{us})
	if err == nil {
		m, err = m.AddTable(1024, 1, []topology.Place{eu, us})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.WithTopology(m)
}

func apply(t *testing.T, s *meta.State, view View) (*meta.State, []Action) {
	t.Helper()
	actions := Schedule(s, view)
	m, err := Apply(s.Topology, actions, view.Now)
	if err != nil {
		t.Fatal(err)
	}
	return s.WithTopology(m), actions
}

var allNodes = []byte{1, 2, 3, 4, 5, 11, 12, 13, 14, 15}

// TestTokensOfRegions checks that each region has its own ring, and that no token is assigned twice.
func TestTokensOfRegions(t *testing.T) {
	s := twoRegions(t, allNodes...)
	seen := map[token.Token]bool{}
	for _, n := range s.Nodes {
		if tok := n.Tokens[0]; seen[tok] {
			t.Errorf("token %d is assigned twice", tok)
		} else {
			seen[tok] = true
		}
	}
	for i, n := range s.Nodes[5:] {
		if tok := s.Nodes[i].Tokens[0]; n.Tokens[0] != tok+1 {
			t.Errorf("node %d of eu has token %d, and node %d of us %d", i, n.Tokens[0], i, tok)
		}
	}
}

// TestEffectiveReplicasOfRegions checks that the number of replicas depends on the nodes of the region.
func TestEffectiveReplicasOfRegions(t *testing.T) {
	s := twoRegions(t, 1, 2, 3, 4, 11)
	for region, want := range map[string]int{"us": 4, "eu": 1, "ap": 0} {
		if got := EffectiveReplicas(s, region); got != want {
			t.Errorf("%s has %d replicas, want %d", region, got, want)
		}
	}
}

// TestPlaceInRegions checks that every partition of a new table gets a set in each region, on the nodes of the region.
func TestPlaceInRegions(t *testing.T) {
	s := twoRegions(t, allNodes...)
	pieces := Place(s, &View{}, []string{"us", "eu"}, Table{ID: 1025, Parts: 1})
	if len(pieces) < 5 {
		t.Errorf("%d partitions for five nodes", len(pieces))
	}
	for _, piece := range pieces {
		if len(piece.Places) != 2 || piece.Places[0].Region != "us" || piece.Places[1].Region != "eu" {
			t.Fatalf("%+v", piece.Places)
		}
		for _, place := range piece.Places {
			if len(place.Nodes) != Replicas {
				t.Errorf("%d replicas in %s", len(place.Nodes), place.Region)
			}
			for _, n := range place.Nodes {
				if regionOf(n[0]) != place.Region {
					t.Errorf("node %d holds a replica of %s", n[0], place.Region)
				}
			}
		}
	}
}

// TestMetaLearnersOfRegions checks that nodes of all regions are members of the meta partition, and that only nodes of
// its region become voters.
func TestMetaLearnersOfRegions(t *testing.T) {
	s := twoRegions(t, allNodes...)
	view := View{Now: time.Unix(1e9, 0)}
	s, _ = apply(t, s, view)
	set := topology.MetaSet(s.Topology)
	for _, n := range s.Nodes {
		if m := set.On(n.ID); m == nil || m.State == topology.Voter != (n.ID[0] <= 4) {
			t.Errorf("node %d is %+v in the meta partition", n.ID[0], m)
		}
	}
	// A voter is replaced by the remaining node of the region, although learners of eu are closer on the ring.
	view.Down = map[topology.NodeID]time.Time{at(2): view.Now.Add(-time.Hour)}
	s, _ = apply(t, s, view)
	for _, m := range topology.MetaSet(s.Topology).Replicas {
		if m.State == topology.Joining && m.Node != at(5) {
			t.Errorf("node %d becomes a voter of the meta partition", m.Node[0])
		}
	}
	if m := topology.MetaSet(s.Topology).On(at(5)); m.State != topology.Joining {
		t.Errorf("node 5 is %s", m.State)
	}
}

// TestReplaceInRegion checks that a node of the same region replaces a dead node.
func TestReplaceInRegion(t *testing.T) {
	s := twoRegions(t, 1, 2, 3, 4, 11, 12, 13, 14, 15)
	view := View{Now: time.Unix(1e9, 0), Down: map[topology.NodeID]time.Time{at(12): {}}}
	s, _ = apply(t, s, view)
	p := s.Topology.Partition(1)
	if m := p.Set("eu").On(at(15)); m == nil || m.State != topology.Joining {
		t.Errorf("node 15 is %+v", m)
	}
	if n := len(p.Set("us").Replicas); n != 4 {
		t.Errorf("the set in us has %d replicas", n)
	}
}

// TestRegionAway checks that the sets of a region do not change if no node of the region answers, and that leaderships
// in another region still change.
func TestRegionAway(t *testing.T) {
	s := twoRegions(t, 1, 2, 3, 4, 11, 12, 13, 14, 15)
	view := View{Now: time.Unix(1e9, 0), Down: map[topology.NodeID]time.Time{}}
	for n := byte(11); n <= 15; n++ {
		view.Down[at(n)] = view.Now.Add(-time.Minute) // not dead yet
	}
	m, err := s.Topology.WithLead(1, at(4))
	if err != nil {
		t.Fatal(err)
	}
	s, actions := apply(t, s.WithTopology(m), view)
	if p := s.Topology.Partition(1); p.Lead != (topology.NodeID{}) {
		t.Errorf("the preferred leader is still node %d: %v", p.Lead[0], actions)
	}
	for n := byte(11); n <= 15; n++ {
		view.Down[at(n)] = view.Now.Add(-time.Hour)
	}
	before := slices.Clone(s.Topology.Partition(1).Set("eu").Replicas)
	s, actions = apply(t, s, view)
	if after := s.Topology.Partition(1).Set("eu").Replicas; !slices.Equal(before, after) {
		t.Errorf("the set in eu has changed: %v", actions)
	}
}

// TestPinOfRegion checks that a pin moves the replicas in the region of its nodes, and that the partition's set in
// another region does not change.
func TestPinOfRegion(t *testing.T) {
	s := twoRegions(t, allNodes...)
	view := View{Now: time.Unix(1e9, 0)}
	for _, o := range []Move{{Table: 1024, Partition: 1, From: at(1), To: at(5)},
		{Table: 1024, Partition: 1, From: at(11), To: at(15)}} {
		next, err := o.Apply(s, &view)
		if err != nil {
			t.Fatal(err)
		}
		if next, _ = apply(t, next, view); MoveDone(next.Topology.Partition(1), &o) {
			t.Error("the move is complete before the replica votes")
		}
		p := next.Topology.Partition(1)
		for i := range p.Sets {
			set := &p.Sets[i]
			if moves := set.Region == regionOf(o.To[0]); moves != (set.Count(topology.Joining) == 1) {
				t.Errorf("move to node %d: the set in %s has %d joining replicas", o.To[0], set.Region,
					set.Count(topology.Joining))
			}
			for _, m := range set.Replicas {
				if regionOf(m.Node[0]) != set.Region {
					t.Errorf("node %d holds a replica of the set in %s", m.Node[0], set.Region)
				}
			}
		}
	}
	o := Move{Table: 1024, Partition: 1, From: at(1), To: at(15)}
	if _, err := o.Apply(s, &view); err == nil || !strings.Contains(err.Error(), `is in region "eu"`) {
		t.Errorf("move to another region: %v", err)
	}
}

// TestLeadOfHome checks that only the set of the home region determines the preferred leader.
func TestLeadOfHome(t *testing.T) {
	s := twoRegions(t, allNodes...)
	view := View{Now: time.Unix(1e9, 0), Sizes: map[topology.PartitionID]Size{1: {Load: 50000}}}
	ring := RingOf(s, &view, "us")
	first := ring.LeaderOrder(s.Topology.Partition(1), view.Now)[0]
	lead := at(1)
	if first == lead {
		lead = at(2)
	}
	m, err := s.Topology.WithLead(1, lead)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range Schedule(s.WithTopology(m), view) {
		if a.Region == "eu" && slices.ContainsFunc(a.Steps, func(s Step) bool { return s.Kind == SetLeader }) {
			t.Errorf("the set in eu changes the preferred leader: %s", a)
		}
	}
}
