// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"slices"
	"strings"
	"testing"
)

// TestLikeness checks that a status names nodes that share an address, a cluster in a single zone, and nodes of
// different builds.
func TestLikeness(t *testing.T) {
	node := func(id, address, zone, build string) NodeStatus {
		return NodeStatus{ID: id + "00000000", Internal: address + ":7000", CQL: address + ":9042", Zone: zone,
			Software: build}
	}
	good := []NodeStatus{node("a", "10.0.0.1", "z1", "v1"), node("b", "10.0.0.2", "z2", "v1"),
		node("c", "10.0.0.3", "z3", "v1"), node("d", "10.0.0.4", "z4", "v1")}
	if got := append(sharedAddresses(good), likeness(good)...); len(got) > 0 {
		t.Errorf("of a good cluster: %q", got)
	}
	shared := slices.Clone(good)
	shared[2] = node("c", "10.0.0.1", "z3", "v1")
	got := sharedAddresses(shared)
	if len(got) != 2 || !strings.Contains(got[0], "nodes a0000000 and c0000000 have the same internal address, 10.0.0.1:7000") ||
		!strings.Contains(got[1], "the same CQL address, 10.0.0.1:9042") {
		t.Errorf("of nodes that share an address: %q", got)
	}
	one := slices.Clone(good)
	for i := range one {
		one[i].Zone = "rack1"
	}
	one[3].Software = "v2"
	got = likeness(one)
	if len(got) != 2 || !strings.Contains(got[0], "all 4 nodes are in zone rack1") ||
		!strings.Contains(got[1], "different versions: v1 on 3, v2 on 1") {
		t.Errorf("of a cluster in one zone: %q", got)
	}
	if got := likeness(one[:3]); len(got) > 0 {
		t.Errorf("of three nodes: %q", got)
	}
}
