// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// viewer is a member with a view of the cluster.
type viewer placement.View

func (v viewer) View() placement.View { return placement.View(v) }
func (viewer) LeadsMeta() bool        { return true }

// TestEmptyNodeLeaves checks that a leaving node has left when it is empty, even if other nodes still exchange
// replicas. A large cluster always has replicas to move.
func TestEmptyNodeLeaves(t *testing.T) {
	s := meta.Empty()
	for i := range byte(5) {
		n := &meta.Node{ID: topology.NodeID{i + 1}, Region: "r",
			Tokens: []token.Token{placement.NextToken(s.Nodes, "r")}}
		if i == 4 {
			n.State = meta.Leaving
		}
		s = s.WithNode(n)
	}
	var three []topology.NodeID
	for _, n := range s.Nodes[:3] {
		three = append(three, n.ID)
	}
	m, err := s.Topology.AddTable(1024, 1, []topology.Place{{Region: "r", Nodes: three}})
	if err != nil {
		t.Fatal(err)
	}
	p := PlacementReconciler{Member: viewer{Now: time.Unix(1, 0)}}
	next, actions := p.decide(s.WithTopology(m))
	if len(actions) == 0 {
		t.Fatal("no move is planned")
	}
	if state := next.Node(topology.NodeID{5}).State; state != meta.Left {
		t.Fatalf("the empty node is %s", state)
	}
}
