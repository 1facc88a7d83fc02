// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

func withNodes(states map[topology.NodeID]meta.NodeState) *meta.State {
	s := meta.Empty()
	for id, state := range states {
		s = s.WithNode(&meta.Node{ID: id, Region: "r", State: state})
	}
	return s
}

// TestFind checks that a node is found by four or more digits of its ID. A prefix that two members share is ambiguous.
// A node that has left is found only if no other node has the prefix.
func TestFind(t *testing.T) {
	a, b, left := topology.NodeID{0xab, 0xcd, 0x01}, topology.NodeID{0xab, 0xcd, 0x02},
		topology.NodeID{0xab, 0xcd, 0x02, 0x99}
	gone := topology.NodeID{0x12, 0x34}
	s := withNodes(map[topology.NodeID]meta.NodeState{a: meta.Up, b: meta.Draining, left: meta.Left, gone: meta.Left})
	for _, c := range []struct {
		name string
		want topology.NodeID
		text string
	}{
		{"abcd01", a, ""},
		{"ABCD01", a, ""},
		{"abcd02", b, ""},
		{"abcd", topology.NodeID{}, "several node IDs"},
		{"abc", topology.NodeID{}, "too short"},
		{"8", topology.NodeID{}, "too short"},
		{"", topology.NodeID{}, "too short"},
		{"ffff", topology.NodeID{}, "cannot find node"},
		{"1234", topology.NodeID{}, "has already left"},
	} {
		n, err := Find(s, c.name)
		switch {
		case c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)):
			t.Errorf("%q: %v, want %q", c.name, err, c.text)
		case c.text == "" && (err != nil || n.ID != c.want):
			t.Errorf("%q: %v, %v", c.name, n, err)
		}
	}
}

// TestMayLeave checks that a node cannot leave if it is the last node or if the replica sets could not keep three
// voters (N4).
func TestMayLeave(t *testing.T) {
	id := func(i int) topology.NodeID { return topology.NodeID{byte(i + 1)} }
	for _, c := range []struct {
		nodes, away, voters int
		may                 bool
	}{
		{1, 0, 1, false},
		{2, 0, 1, true},
		{3, 0, 3, false},
		{4, 0, 4, true},
		{4, 1, 4, false},
		{5, 1, 4, true},
	} {
		states := map[topology.NodeID]meta.NodeState{}
		place := topology.Place{Region: "r"}
		for i := range c.nodes {
			states[id(i)] = meta.Up
			if i >= c.nodes-c.away {
				states[id(i)] = meta.Leaving
			}
			if i < c.voters {
				place.Nodes = append(place.Nodes, id(i))
			}
		}
		s := withNodes(states)
		m, err := s.Topology.AddMeta([]topology.Place{place})
		if err != nil {
			t.Fatal(err)
		}
		if err := checkDecommission(s.WithTopology(m), s.Node(id(0))); (err == nil) != c.may {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestMayLeaveRegion checks that the nodes of a region decide whether one of them may leave. The last node of a region
// without replica sets may leave.
func TestMayLeaveRegion(t *testing.T) {
	id := func(i byte) topology.NodeID { return topology.NodeID{i} }
	s := meta.Empty()
	for i := byte(1); i <= 3; i++ {
		s = s.WithNode(&meta.Node{ID: id(i), Region: "us"}).WithNode(&meta.Node{ID: id(10 + i), Region: "eu"})
	}
	m, err := s.Topology.AddMeta([]topology.Place{{Region: "us", Nodes: []topology.NodeID{id(1), id(2), id(3)}}})
	if err != nil {
		t.Fatal(err)
	}
	if m, _, err = m.AddMember(topology.MetaPartition, "us", id(11), topology.Learner); err != nil {
		t.Fatal(err)
	}
	s = s.WithTopology(m)
	if err := checkDecommission(s, s.Node(id(1))); err == nil {
		t.Error("one of three nodes of us may leave because eu has nodes")
	}
	for _, n := range []byte{12, 13} {
		s = s.WithNode(&meta.Node{ID: id(n), Region: "eu", State: meta.Left})
	}
	if err := checkDecommission(s, s.Node(id(11))); err != nil {
		t.Errorf("the last node of eu: %v", err)
	}
}
