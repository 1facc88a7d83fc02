// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const here = "here"

// modelCluster is the part of a cluster that is relevant to placement. It consists of the metadata, the available
// nodes, and the Raft configuration of each partition. Leaders change the configuration with Plan and may publish the
// new configuration later with RecordVoters.
type modelCluster struct {
	t     *rapid.T
	state *meta.State
	view  View
	conf  map[topology.PartitionID]*Config
	many  map[topology.PartitionID]bool // partitions that have had three voters
	nodes map[topology.ReplicaID]topology.NodeID
	last  topology.ReplicaID // the highest ID seen
	table uint32
	// planner has seen all or some of the previous states.
	planner Planner
}

func newModelCluster(t *rapid.T) *modelCluster {
	w := &modelCluster{
		t: t, state: meta.Empty(), conf: map[topology.PartitionID]*Config{}, many: map[topology.PartitionID]bool{},
		nodes: map[topology.ReplicaID]topology.NodeID{}, table: 1024,
		view: View{Now: time.Unix(1e9, 0), Down: map[topology.NodeID]time.Time{}, Free: map[topology.NodeID]int{}},
	}
	w.join()
	m, err := w.state.Topology.AddMeta([]topology.Place{{Region: here, Nodes: []topology.NodeID{w.state.Nodes[0].ID}}})
	w.must(err)
	w.install(m)
	w.create(1, true)
	return w
}

func (w *modelCluster) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *modelCluster) join() {
	n := len(w.state.Nodes)
	node := &meta.Node{
		ID: topology.NodeID{byte(n + 1)}, Region: here,
		Zone:   fmt.Sprint("zone", rapid.IntRange(0, 2).Draw(w.t, "zone")),
		Tokens: []token.Token{NextToken(w.state.Nodes, here)},
	}
	w.state = w.state.WithNode(node)
}

func (w *modelCluster) create(parts int, whole bool) {
	w.table++
	m, err := w.state.Topology.CutTable(w.table, Place(w.state, &w.view, []string{here}, Table{w.table, parts, whole}))
	w.must(err)
	w.install(m)
}

// install checks the IDs of the topology m, installs m, and creates the configurations of new partitions.
func (w *modelCluster) install(m *topology.Snapshot) {
	w.must(m.Validate())
	last := w.last
	for p := range m.All() {
		for _, r := range p.Sets[0].Replicas {
			if w.nodes[r.ID] == (topology.NodeID{}) {
				if r.ID <= last {
					w.t.Fatalf("replica %d of partition %d has an id that was used", r.ID, p.ID)
				}
				w.last = max(w.last, r.ID)
				w.nodes[r.ID] = r.Node
			}
			if w.nodes[r.ID] != r.Node {
				w.t.Fatalf("replica %d moved from node %x to %x", r.ID, w.nodes[r.ID], r.Node)
			}
		}
		if w.conf[p.ID] == nil {
			c := &Config{}
			for _, r := range p.Sets[0].Replicas {
				c.Voters = append(c.Voters, r.ID)
			}
			w.conf[p.ID] = c
			w.check(p.ID)
		}
	}
	w.state = w.state.WithTopology(m)
}

// check checks PL2, and that no node has two replicas of a configuration.
func (w *modelCluster) check(id topology.PartitionID) {
	c := w.conf[id]
	n := len(c.Voters)
	if n == 2 || n < 1 || n > Replicas || w.many[id] && n < 3 {
		w.t.Fatalf("partition %d votes with %d, had three: %v", id, n, w.many[id])
	}
	w.many[id] = w.many[id] || n >= 3
	on := map[topology.NodeID]bool{}
	for _, r := range c.Voters {
		if on[w.nodes[r]] {
			w.t.Fatalf("partition %d has two voters on node %x", id, w.nodes[r])
		}
		on[w.nodes[r]] = true
	}
}

func (w *modelCluster) schedule() int {
	actions := Schedule(w.state, w.view)
	if kept := w.planner.Schedule(w.state, w.view); !reflect.DeepEqual(kept, actions) {
		w.t.Fatalf("a planner that has seen what was before says %v, one that has not %v", kept, actions)
	}
	m, err := Apply(w.state.Topology, actions, w.view.Now)
	w.must(err)
	w.install(m)
	return len(actions)
}

// lead performs the next step of a partition's leader. publish determines whether the leader publishes the step. The
// result reports whether the step has changed the cluster.
func (w *modelCluster) lead(id topology.PartitionID, publish bool) bool {
	p, c := w.state.Topology.Partition(id), w.conf[id]
	alive := 0
	for _, r := range c.Voters {
		if !w.view.down(w.nodes[r]) {
			alive++
		}
	}
	if alive <= len(c.Voters)/2 {
		return false
	}
	before := w.state.Topology
	change := Plan(&p.Sets[0], *c, func(r topology.ReplicaID) bool { return !w.view.down(w.nodes[r]) })
	for _, r := range change.Learn {
		c.Learners = append(c.Learners, r.ID)
	}
	gone := func(r topology.ReplicaID) bool { return slices.Contains(change.Remove, r) }
	c.Voters, c.Learners = slices.DeleteFunc(c.Voters, gone), slices.DeleteFunc(c.Learners, gone)
	for _, r := range change.Promote {
		c.Voters = append(c.Voters, r.ID)
		c.Learners = slices.DeleteFunc(c.Learners, func(o topology.ReplicaID) bool { return o == r.ID })
	}
	w.check(id)
	if publish {
		m, err := before.RecordVoters(id, here, c.Voters)
		w.must(err)
		w.install(m)
	}
	return len(change.Learn)+len(change.Promote)+len(change.Remove) > 0 || w.state.Topology != before
}

func (w *modelCluster) ids() (ids []topology.PartitionID) {
	for p := range w.state.Topology.All() {
		ids = append(ids, p.ID)
	}
	return ids
}

// wish requests a move, or the colocation of two partitions, if it is allowed.
func (w *modelCluster) wish() {
	ids := w.ids()
	p := w.state.Topology.Partition(rapid.SampledFrom(ids).Draw(w.t, "partition"))
	if rapid.Bool().Draw(w.t, "move") {
		o := Move{
			Table: p.Table, Partition: p.ID, From: rapid.SampledFrom(w.state.Nodes).Draw(w.t, "from").ID,
			To: rapid.SampledFrom(w.state.Nodes).Draw(w.t, "to").ID,
		}
		if next, err := o.Apply(w.state, &w.view); err == nil {
			w.state = next
		}
		return
	}
	right := rapid.SampledFrom(ids).Draw(w.t, "right")
	if m, err := Colocate(w.state.Topology, p.ID, right, topology.ByOperator, w.view.Now.Add(time.Minute)); err == nil {
		w.install(m)
	}
}

// TestMoveIsCarriedOut checks that a request to move a replica is executed if its nodes stay, regardless of earlier
// events. The scheduler must not undo the move before the request ends.
func TestMoveIsCarriedOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newModelCluster(t)
		for range rapid.IntRange(1, 8).Draw(t, "nodes at first") {
			w.join()
		}
		w.converge()
		for range rapid.IntRange(0, 10).Draw(t, "events") {
			w.event()
		}
		w.view.Down = map[topology.NodeID]time.Time{}
		w.converge()
		for _, id := range w.ids() {
			p := w.state.Topology.Partition(id)
			from := rapid.SampledFrom(p.Sets[0].Replicas).Draw(t, "from").Node
			to := rapid.SampledFrom(w.state.Nodes).Draw(t, "to").ID
			next, err := (&Move{Table: p.Table, Partition: id, From: from, To: to}).Apply(w.state, &w.view)
			if err != nil {
				continue
			}
			w.state = next
			w.converge()
			set := &w.state.Topology.Partition(id).Sets[0]
			if m := set.On(to); m == nil || m.State != topology.Voter {
				t.Fatalf("partition %d was to move from %x to %x and is on %+v", id, from[:1], to[:1], set.Replicas)
			}
			if m := set.On(from); m != nil && m.State != topology.Learner {
				t.Fatalf("partition %d was to move from %x to %x and is on %+v", id, from[:1], to[:1], set.Replicas)
			}
			if len(votersOf(set)) != len(votersOf(&p.Sets[0])) {
				t.Fatalf("partition %d had %+v and has %+v", id, p.Sets[0].Replicas, set.Replicas)
			}
		}
	})
}

// converge runs the scheduler and the leaders until nothing changes (PL5).
func (w *modelCluster) converge() {
	for range 4000 {
		changed := w.schedule() > 0
		for _, id := range w.ids() {
			changed = w.lead(id, true) || changed
		}
		for _, n := range w.state.Nodes {
			if n.State == meta.Leaving && Holds(w.state, n.ID) == 0 {
				w.turn(n, meta.Left)
				changed = true
			}
		}
		if !changed {
			return
		}
	}
	for _, a := range Schedule(w.state, w.view) {
		w.t.Log(a)
	}
	w.t.Fatal("scheduling does not terminate")
}

func (w *modelCluster) turn(n *meta.Node, to meta.NodeState) {
	next := *n
	next.State = to
	w.state = w.state.WithNode(&next)
}

// event applies a random event to the nodes or to the scheduler, at any point of a change.
func (w *modelCluster) event() {
	n := w.state.Nodes[rapid.IntRange(0, len(w.state.Nodes)-1).Draw(w.t, "node")]
	switch rapid.IntRange(0, 11).Draw(w.t, "event") {
	case 0:
		if len(w.state.Nodes) < 9 {
			w.join()
		}
	case 1:
		if !w.view.down(n.ID) {
			w.view.Down[n.ID] = w.view.Now
		}
	case 2:
		delete(w.view.Down, n.ID)
	case 3:
		if n.State == meta.Up {
			w.turn(n, rapid.SampledFrom([]meta.NodeState{meta.Leaving, meta.Draining}).Draw(w.t, "to"))
		} else if n.State == meta.Draining {
			w.turn(n, meta.Up)
		}
	case 4:
		w.view.Now = w.view.Now.Add(time.Duration(rapid.IntRange(1, 400).Draw(w.t, "seconds")) * time.Second)
	case 5:
		w.create(rapid.IntRange(1, 3).Draw(w.t, "parts"), rapid.Bool().Draw(w.t, "whole"))
	case 6:
		w.schedule()
	case 7:
		w.wish()
	default:
		for _, id := range w.ids() {
			if rapid.Bool().Draw(w.t, "leads") {
				w.lead(id, rapid.Bool().Draw(w.t, "publishes"))
			}
		}
	}
}

// TestPlacementInvariants checks that PL1 and PL2 hold after every event and that no ID is used twice. It then waits
// until nothing changes, with up to one permanently failed node. Every replica set must then have the voters that the
// nodes allow, on the nodes that the ring prefers.
func TestPlacementInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newModelCluster(t)
		for range rapid.IntRange(0, 4).Draw(t, "nodes at first") {
			w.join()
		}
		if rapid.Bool().Draw(t, "converged at first") {
			w.converge()
		}
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			w.event()
		}
		w.view.Down = map[topology.NodeID]time.Time{}
		for _, n := range w.state.Nodes {
			if n.State == meta.Draining {
				w.turn(n, meta.Up)
			}
		}
		w.view.Now = w.view.Now.Add(2 * DefaultHold)
		w.converge()
		if dead := w.state.Nodes[rapid.IntRange(0, len(w.state.Nodes)-1).Draw(t, "dead")]; rapid.Bool().Draw(t,
			"one dies") {
			w.view.Down[dead.ID] = w.view.Now
			w.view.Now = w.view.Now.Add(DefaultRebuildDelay)
			w.converge()
		}
		w.rested()
	})
}

// rested checks the final state that PL5 requires.
func (w *modelCluster) rested() {
	ring := RingOf(w.state, &w.view, here)
	for p := range w.state.Topology.All() {
		set := &p.Sets[0]
		alive := 0
		for _, m := range set.Replicas {
			if m.State == topology.Joining {
				w.t.Fatalf("partition %d: replica %d is joining indefinitely", p.ID, m.ID)
			}
			if m.State == topology.Voter && w.view.stays(w.state.Node(m.Node)) {
				alive++
			}
		}
		conf := w.conf[p.ID]
		for _, m := range set.Replicas {
			if m.State == topology.Voter && !slices.Contains(conf.Voters, m.ID) {
				w.t.Fatalf("partition %d: %+v votes with %v", p.ID, set.Replicas, conf.Voters)
			}
		}
		for _, r := range conf.Voters {
			if set.Member(r) == nil {
				w.t.Fatalf("partition %d: %+v votes with %v", p.ID, set.Replicas, conf.Voters)
			}
		}
		up := 0
		for _, r := range conf.Voters {
			if !w.view.down(w.nodes[r]) {
				up++
			}
		}
		if up <= len(conf.Voters)/2 {
			continue // the only voter has failed
		}
		want := min(len(ring.nodes), Replicas)
		if want == 2 {
			want = 1
		}
		if alive < want {
			w.t.Fatalf("partition %d: %d voters that stay, with %d nodes: %+v", p.ID, alive, len(ring.nodes),
				set.Replicas)
		}
		if p.ID == topology.MetaPartition {
			for _, n := range w.state.Nodes {
				if n.State == meta.Up && !w.view.down(n.ID) && set.On(n.ID) == nil {
					w.t.Fatalf("node %x is not a member of the meta partition", n.ID)
				}
			}
			continue
		}
		if len(ring.nodes) < Replicas {
			continue
		}
		for _, node := range ring.PreferredNodes(p, Replicas) {
			if m := set.On(node); m == nil || m.State != topology.Voter {
				w.t.Fatalf("partition %d %s lives on %+v, the ring has it on %x", p.ID, p.Span, set.Replicas,
					ring.PreferredNodes(p, Replicas))
			}
		}
		if len(set.Replicas) != Replicas {
			w.t.Fatalf("partition %d has %+v", p.ID, set.Replicas)
		}
	}
}
