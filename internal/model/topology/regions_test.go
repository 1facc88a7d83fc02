// SPDX-License-Identifier: Apache-2.0

package topology

import "testing"

// TestSetsOfRegions checks that the replica set of a region, the replica set of a node, and the home set are found.
// The home set need not be the first set. The meta partition has one set for the nodes of all regions.
func TestSetsOfRegions(t *testing.T) {
	id := func(n byte) NodeID { return NodeID{n} }
	eu, us := Place{"eu", []NodeID{id(5), id(6), id(7)}}, Place{"us", []NodeID{id(1), id(2), id(3)}}
	s, err := New().AddTable(1024, 1, []Place{eu, us})
	if err != nil {
		t.Fatal(err)
	}
	p := s.Partition(1)
	if HomeSet(s, p) != nil || HomeRegion(s) != "" || MetaSet(s) != nil {
		t.Errorf("without metadata, the home is %+v", HomeSet(s, p))
	}
	if s, err = s.AddMeta([]Place{us}); err != nil {
		t.Fatal(err)
	}
	if s, _, err = s.AddMember(MetaPartition, "us", id(5), Learner); err != nil {
		t.Fatal(err)
	}
	if p = s.Partition(1); HomeSet(s, p) != p.Set("us") || HomeRegion(s) != "us" {
		t.Errorf("the home is %+v, in region %q", HomeSet(s, p), HomeRegion(s))
	}
	if p.SetOn(id(6)) != p.Set("eu") || p.SetOn(id(2)) != p.Set("us") || p.SetOn(id(9)) != nil {
		t.Error("a node's set is another set")
	}
	if p.GroupSet("eu") != p.Set("eu") || p.GroupSet("ap") != nil || s.Meta().GroupSet("eu") != MetaSet(s) {
		t.Error("the set of a node's Raft group is another set")
	}
	alone, err := New().AddTable(1024, 1, []Place{eu})
	if err != nil {
		t.Fatal(err)
	}
	if p := alone.Partition(1); HomeSet(alone, p) != p.Set("eu") {
		t.Error("the only set is not the home")
	}
}
