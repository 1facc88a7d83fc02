// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestNextToken checks that each joining node halves the largest gap, so that all shares are equal if the number of
// nodes is a power of two.
func TestNextToken(t *testing.T) {
	var nodes []*meta.Node
	for i := range 64 {
		n := &meta.Node{ID: topology.NodeID{byte(i + 1)}, Tokens: []token.Token{NextToken(nodes, "")}}
		for _, o := range nodes {
			if o.Tokens[0] == n.Tokens[0] {
				t.Fatalf("nodes %x and %x have the token %s", o.ID[0], n.ID[0], n.Tokens[0])
			}
		}
		nodes = append(nodes, n)
		if i > 0 && len(nodes)&i == 0 { // the number of nodes is a power of two
			at := NewRing(nodes).tokens
			for j := range at {
				if gap := at[(j+1)%len(at)].at - at[j].at; gap != 1<<63/uint64(len(at)/2) {
					t.Errorf("%d nodes: a share of %d", len(nodes), gap)
				}
			}
		}
	}
}

// naive is a simple implementation of the selection of NetworkTopologyStrategy. It walks along the ring and first takes
// the first node of every zone. Then it takes the nodes that it passed before it found the last zone, and then the
// remaining nodes.
func naive(nodes []*meta.Node, t token.Token, n int) []topology.NodeID {
	type place struct {
		at   uint64
		node *meta.Node
	}
	var walk []*meta.Node
	var places []place
	zones := map[string]bool{}
	for _, o := range nodes {
		zones[o.Zone] = true
		for _, token := range o.Tokens {
			places = append(places, place{token.Position() - t.Position(), o}) // the distance along the ring
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	for _, p := range places {
		if !slices.Contains(walk, p.node) {
			walk = append(walk, p.node)
		}
	}
	var first, again, later []topology.NodeID
	seen := map[string]bool{}
	for _, o := range walk {
		switch {
		case !seen[o.Zone]:
			seen[o.Zone] = true
			first = append(first, o.ID)
		case len(seen) < len(zones):
			again = append(again, o.ID)
		default:
			later = append(later, o.ID)
		}
	}
	all := slices.Concat(first, again, later)
	return all[:min(n, len(all))]
}

// TestWalk checks that walk returns the nodes that drivers compute, even with several tokens per node. A walk for fewer
// replicas must be a prefix of a walk for more.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*meta.Node
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			n := &meta.Node{ID: topology.NodeID{byte(i + 1)}, Zone: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "zone"))}
			for range rapid.IntRange(1, 3).Draw(t, "tokens") {
				n.Tokens = append(n.Tokens, NextToken(append(nodes, n), ""))
			}
			nodes = append(nodes, n)
		}
		ring := NewRing(nodes)
		for range 10 {
			at := token.Token(rapid.Int64().Draw(t, "at"))
			all := ring.ids(ring.walk(ring.tokenIndex(at.Position()), len(nodes)))
			for n := range len(nodes) + 2 {
				got := ring.ids(ring.walk(ring.tokenIndex(at.Position()), n))
				if want := naive(nodes, at, n); !slices.Equal(got, want) || !slices.Equal(got, all[:len(got)]) {
					t.Fatalf("%d replicas at %s: %x, want %x", n, at, got, want)
				}
			}
		}
	})
}

// TestPlaceFollowsTheRing checks that a table on more than four nodes is divided so that every key is on the nodes that
// drivers compute. The first node in the drivers' order must be the leader.
func TestPlaceFollowsTheRing(t *testing.T) {
	state := meta.Empty()
	for i := range 7 {
		state = state.WithNode(&meta.Node{ID: topology.NodeID{byte(i + 1)}, Region: here, Zone: fmt.Sprint(i % 3),
			Tokens: []token.Token{NextToken(state.Nodes, here)}})
	}
	m, err := state.Topology.CutTable(1024, Place(state, &View{}, []string{here}, Table{ID: 1024, Parts: 1}))
	if err != nil {
		t.Fatal(err)
	}
	ring := RingOf(state, &View{}, here)
	keys := []token.Token{token.Min + 1, token.Max}
	for _, n := range state.Nodes {
		keys = append(keys, n.Tokens[0], n.Tokens[0]+1)
	}
	for i := range 1000 {
		keys = append(keys, token.Hash(fmt.Append(nil, i)))
	}
	for _, at := range keys {
		if at == token.Min {
			continue // no key has this token, so it has no separate partition
		}
		set := &m.Locate(1024, at, []byte("key")).Sets[0]
		walk := ring.ids(ring.walk(ring.tokenIndex(at.Position()), Replicas))
		for i, want := range walk {
			if len(set.Replicas) != Replicas || set.On(want) == nil || i == 0 && set.Replicas[0].Node != want {
				t.Fatalf("token %s: %+v, want %x", at, set.Replicas, walk)
			}
		}
	}
}

// TestHomeSpreads checks that the leaders of many tables with one partition are spread evenly over all nodes, and that
// few tables move when a node joins.
func TestHomeSpreads(t *testing.T) {
	var nodes []*meta.Node
	homes := func() (lead map[topology.NodeID]int, out [][]topology.NodeID) {
		lead = map[topology.NodeID]int{}
		ring := NewRing(nodes)
		for table := range uint32(1000) {
			home := ring.ids(ring.preferred(1024+table, topology.Span{}, Replicas))
			lead[home[0]]++
			slices.SortFunc(home, func(a, b topology.NodeID) int { return slices.Compare(a[:], b[:]) })
			out = append(out, home)
		}
		return lead, out
	}
	join := func() {
		nodes = append(nodes, &meta.Node{ID: topology.NodeID{byte(len(nodes) + 1)},
			Tokens: []token.Token{NextToken(nodes, "")}})
	}
	for range 8 {
		join()
	}
	lead, before := homes()
	for _, n := range nodes {
		if lead[n.ID] < 115 || lead[n.ID] > 135 {
			t.Errorf("node %d leads %d tables of 1000", n.ID[0], lead[n.ID])
		}
	}
	// If a node is gone, the nodes that follow it lead its tables in equal shares: about 125 tables, 125/7 per node.
	gone := nodes[3].ID
	heirs := map[topology.NodeID]int{}
	for table := range uint32(1000) {
		p := &topology.Partition{Table: 1024 + table}
		if home := NewRing(nodes).PreferredNodes(p, Replicas); home[0] == gone {
			heirs[home[1]]++
		}
	}
	for _, n := range nodes {
		if most := heirs[n.ID]; n.ID != gone && most > 45 {
			t.Errorf("node %d takes over %d of the %d tables that node %d led", n.ID[0], most, lead[gone], gone[0])
		}
	}
	join()
	_, after := homes()
	moved := 0
	for i := range before {
		if !slices.Equal(before[i], after[i]) {
			moved++
		}
	}
	if moved > 500 {
		t.Errorf("%d tables of 1000 change when the ninth node joins", moved)
	}
}

// TestExchange checks that exchange never results in two voters, or in fewer than three voters once the set has had
// three voters. exchange must not remove a voter before its replacement has caught up. It must complete a change as
// soon as all joining replicas have caught up.
func TestExchange(t *testing.T) {
	for _, voters := range []int{1, 3, 4} {
		for leaving := range min(voters, 2) + 1 {
			for joining := range 4 {
				for caughtUp := range joining + 1 {
					promote, remove := exchange(voters, leaving, joining, caughtUp)
					to := voters + promote - remove
					what := fmt.Sprintf("%d voters, %d leaving, %d joining, %d of them caught up: %d more, %d fewer",
						voters, leaving, joining, caughtUp, promote, remove)
					if to == 2 || to < 1 || to > Replicas || voters >= 3 && to < 3 || promote > caughtUp ||
						remove > leaving {
						t.Error(what)
					}
					if free := max(0, leaving-joining); remove > promote+free {
						t.Error(what, "- before somebody came")
					}
					if leaving == 1 && joining == 1 && caughtUp == 1 && (promote != 1 || remove != 1) {
						t.Error(what, "- and they could change places")
					}
				}
			}
		}
	}
}

// TestStrayReplicas checks that a learner that is not in the topology is removed. A voter that is not in the topology
// is newer than the topology and must stay. Otherwise, a new leader with an old topology would remove a voter without
// replacing it. A leaving voter stays if it has no replacement and its node stays.
func TestStrayReplicas(t *testing.T) {
	state := meta.Empty()
	for i := range 3 {
		state = state.WithNode(&meta.Node{ID: topology.NodeID{byte(i + 1)}, Region: here,
			Tokens: []token.Token{NextToken(state.Nodes, here)}})
	}
	m, err := state.Topology.CutTable(1024, Place(state, &View{}, []string{here}, Table{ID: 1024, Parts: 1}))
	if err != nil {
		t.Fatal(err)
	}
	set := &m.Partition(1).Sets[0]
	change := Plan(set, Config{Voters: []topology.ReplicaID{1, 2, 3, 77}, Learners: []topology.ReplicaID{78}}, nil)
	if len(change.Learn)+len(change.Promote) > 0 || !slices.Equal(change.Remove, []topology.ReplicaID{78}) {
		t.Errorf("%+v", change)
	}
	if m, err = m.Mark(1, 2, topology.Leaving); err != nil {
		t.Fatal(err)
	}
	actions := Schedule(state.WithTopology(m), View{})
	if len(actions) != 1 || len(actions[0].Steps) != 1 || actions[0].Steps[0].Kind != Promote ||
		actions[0].Steps[0].Replica != 2 {
		t.Errorf("%v", actions)
	}
}

// TestLostLearnerThatVotes checks a learner that the topology has removed and that a leader with an older topology has
// promoted. A replica that was added later on the same node must replace this voter.
func TestLostLearnerThatVotes(t *testing.T) {
	set := &topology.ReplicaSet{Replicas: []topology.Replica{
		{ID: 38, Node: topology.NodeID{4}, State: topology.Voter},
		{ID: 39, Node: topology.NodeID{5}, State: topology.Voter},
		{ID: 40, Node: topology.NodeID{1}, State: topology.Voter},
		{ID: 64, Node: topology.NodeID{3}, State: topology.Joining},
	}}
	now := Config{Voters: []topology.ReplicaID{38, 39, 40, 59}, Learners: []topology.ReplicaID{64}}
	change := Plan(set, now, func(topology.ReplicaID) bool { return true })
	if !slices.Equal(change.Remove, []topology.ReplicaID{59}) || len(change.Promote) != 1 ||
		change.Promote[0].ID != 64 {
		t.Errorf("%+v", change)
	}
}

// TestFreshClusterSpreads checks the tables of a fresh cluster: three system tables and the first user table. No node
// may lead more than its share of these tables.
func TestFreshClusterSpreads(t *testing.T) {
	for n := 3; n <= 4; n++ {
		var nodes []*meta.Node
		for i := range n {
			nodes = append(nodes, &meta.Node{ID: topology.NodeID{byte(i + 1)}, Zone: fmt.Sprint(i),
				Tokens: []token.Token{NextToken(nodes, "")}})
		}
		ring, leads := NewRing(nodes), map[topology.NodeID]int{}
		for _, table := range []uint32{1000, 1001, 1002, 1024} {
			leads[ring.PreferredNodes(&topology.Partition{Table: table}, min(n, Replicas))[0]]++
		}
		for id, count := range leads {
			if count > (4+n-1)/n {
				t.Errorf("of %d nodes %s leads %d of 4", n, id.Short(), count)
			}
		}
	}
}
