// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestPlannerFollowsAnyMap checks that a planner finds each new partition of another topology, even between known
// partitions and for any order of changes.
func TestPlannerFollowsAnyMap(t *testing.T) {
	places := []topology.Place{{Region: "here", Nodes: []topology.NodeID{{1}}}}
	add := func(s *topology.Snapshot, tables ...uint32) *topology.Snapshot {
		for _, table := range tables {
			next, err := s.AddTable(table, 3, places)
			if err != nil {
				t.Fatal(err)
			}
			s = next
		}
		return s
	}
	one := add(topology.New(), 2000, 2001, 2002, 2003)
	var p Planner
	maps := []*topology.Snapshot{one.DropTable(2001), one.DropTable(2003), one.DropTable(2000), one,
		one.DropTable(2002), one.DropTable(2001)}
	for _, s := range maps {
		p.Schedule(&meta.State{Topology: s}, View{})
		if n := len(p.s.sets); n != len(p.s.known.Tables())*3 {
			t.Errorf("%d replica sets of %d tables", n, len(p.s.known.Tables()))
		}
	}
}
