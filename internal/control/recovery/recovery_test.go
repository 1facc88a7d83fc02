// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const testTable = 2000

// nodeID returns the ID of the n-th node, counted from 1.
func nodeID(n int) (id topology.NodeID) {
	id[0], id[15] = byte(n), 1
	return id
}

// membersOn returns the members of a set in the order of the topology.
func membersOn(part *topology.Partition) (out []keys.Member) {
	for _, r := range part.Set("r").Replicas {
		out = append(out, keys.Member{Replica: uint64(r.ID), Node: r.Node})
	}
	return out
}

// testCluster is the topology of a cluster with one table.
type testCluster struct {
	t     testing.TB
	state *meta.State
}

// newTestCluster creates a cluster of n nodes. Its table has a partition on each of the given lists of nodes.
func newTestCluster(t testing.TB, n int, partitions ...[]int) *testCluster {
	t.Helper()
	ids := func(list []int) (out []topology.NodeID) {
		for _, n := range list {
			out = append(out, nodeID(n))
		}
		return out
	}
	var pieces []topology.Piece
	for i, list := range partitions {
		pieces = append(pieces, topology.Piece{Begin: topology.Position{Ring: uint64(i) << 60},
			Places: []topology.Place{{Region: "r", Nodes: ids(list)}}})
	}
	m, err := topology.New().CutTable(testTable, pieces)
	if err == nil {
		m, err = m.AddMeta([]topology.Place{{Region: "r", Nodes: ids([]int{1, 2, 3, 4})}})
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &testCluster{t, meta.Empty().WithTopology(m)}
	for i := range n {
		w.state = w.state.WithNode(&meta.Node{ID: nodeID(i + 1), Internal: fmt.Sprintf("n%d", i+1), Region: "r",
			Zone: "z"})
	}
	return w
}

// survey returns the state of a node. All logs end at entry 100 of term 7, and all entries are applied.
func (w *testCluster) survey(n int) *NodeState {
	w.t.Helper()
	put, err := meta.Empty().Diff(w.state)
	if err != nil {
		w.t.Fatal(err)
	}
	s := &NodeState{Cluster: ID{1}, Node: ID(nodeID(n)), Version: 9}
	for _, r := range put {
		s.Records = append(s.Records, Record(r))
	}
	for part := range w.state.Topology.All() {
		r := part.Set("r").On(nodeID(n))
		if r == nil {
			continue
		}
		m := keys.NewMeta(uint64(part.ID), part.Span.Keys(part.Table))
		m.Applied, m.Term, m.Epoch, m.Voters, m.Region = 100, 7, part.Epoch, membersOn(part), "r"
		s.Replicas = append(s.Replicas, Replica{Partition: m.Partition, Replica: uint64(r.ID), Meta: m.Append(nil),
			Last:     100,
			LastTerm: 7, Term: 7})
	}
	return s
}

func (w *testCluster) plan(lost []int, left ...*NodeState) (*Plan, error) {
	var names []string
	for _, n := range lost {
		id := ID(nodeID(n))
		b, _ := id.MarshalText()
		names = append(names, string(b))
	}
	return Make(left, names, nil, time.Unix(1e9, 0))
}

// after returns the state after a plan has been applied. It validates the state like any loaded state.
func (w *testCluster) after(p *Plan) *meta.State {
	w.t.Helper()
	s, err := meta.Load(func(fn func(key, value []byte) error) (uint64, error) {
		for _, r := range p.Records {
			if err := fn(r.Key, r.Value); err != nil {
				return 0, err
			}
		}
		return p.Version, nil
	})
	if err == nil {
		err = s.Topology.Validate()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (p *Plan) groupOf(id uint64) *Group {
	for i := range p.Groups {
		if p.Groups[i].Partition == id {
			return &p.Groups[i]
		}
	}
	return nil
}

// TestNothingAcknowledgedIsLost checks lossOf exhaustively. A set is Whole or Complete only if every quorum that may
// have acknowledged an entry contains a survivor. It is Whole only if the survivors are a quorum.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	for voters := 1; voters <= 6; voters++ {
		for left := 1; left < 1<<voters; left++ {
			m := keys.NewMeta(1, keys.Span{Table: testTable})
			f := &found{}
			n := 0
			for i := range voters {
				m.Voters = append(m.Voters, keys.Member{Replica: uint64(i) + 1})
			}
			for i := range voters {
				if left&(1<<i) != 0 {
					n++
					f.holders = append(f.holders, holder{&NodeState{}, &Replica{Replica: uint64(i) + 1, meta: m}})
				}
			}
			sure := true
			for quorum := range 1 << voters {
				size := 0
				for i := range voters {
					size += quorum >> i & 1
				}
				if size >= topology.Quorum(voters) && quorum&left == 0 {
					sure = false
				}
			}
			loss := new(planner).lossOf(f)
			if (loss == Whole) != (n >= topology.Quorum(voters)) || (loss == Behind) == sure {
				t.Errorf("%d of %d voters are left: %s", n, voters, loss)
			}
		}
	}
}

// TestSettle checks that replayTail interprets the end of a log in the same way as package partition. Of several
// commands at one epoch, only the first command may take effect.
func TestSettle(t *testing.T) {
	at := func(ring uint64) []byte { return topology.Position{Ring: ring}.Boundary(testTable) }
	split := func(epoch, child, ring uint64) command.Entry {
		return command.Entry{Kind: command.EntrySplit, Epoch: epoch, Split: command.Split{Child: child, At: at(ring)}}
	}
	freeze := func(epoch uint64) command.Entry { return command.Entry{Kind: command.EntryFreeze, Epoch: epoch} }
	thaw := func(epoch uint64) command.Entry { return command.Entry{Kind: command.EntryUnfreeze, Epoch: epoch} }
	for _, c := range []struct {
		name   string
		begun  uint64
		tail   []command.Entry
		epoch  uint64
		born   int
		frozen bool
	}{
		{"nothing", 0, nil, 1, 0, false},
		{"a split", 0, []command.Entry{split(1, 9, 1<<62)}, 2, 1, false},
		{"a split twice", 0, []command.Entry{split(1, 9, 1<<62), split(1, 9, 1<<62)}, 2, 1, false},
		{"two splits", 0, []command.Entry{split(1, 9, 1<<62), split(2, 10, 1<<61)}, 3, 2, false},
		{"taken back before", 0, []command.Entry{thaw(1), split(1, 9, 1<<62)}, 2, 0, false},
		{"taken back after", 0, []command.Entry{split(1, 9, 1<<62), thaw(1)}, 2, 1, false},
		{"frozen", 0, []command.Entry{freeze(1)}, 1, 0, true},
		{"frozen, then a split", 0, []command.Entry{freeze(1), split(1, 9, 1<<62)}, 1, 0, true},
		{"frozen and thawed", 0, []command.Entry{freeze(1), thaw(1), freeze(1)}, 2, 0, false},
		{"outside", 0, []command.Entry{split(1, 9, 0)}, 1, 0, false},
		{"applied already", 1, []command.Entry{thaw(1)}, 1, 0, false},
	} {
		r := Replica{meta: keys.NewMeta(4, keys.Span{Table: testTable})}
		r.meta.Begun = keys.Begun{Index: 11, Commands: c.begun}
		for i := range c.tail {
			r.Tail = append(r.Tail, Command{Index: 11, Place: uint64(i) + 1, Data: command.AppendEntry(nil,
				&c.tail[i])})
		}
		o, err := replayTail(&NodeState{}, &r)
		if err != nil {
			t.Fatal(err)
		}
		if o.meta.Epoch != c.epoch || len(o.born) != c.born || (o.meta.Frozen != 0) != c.frozen {
			t.Errorf("%s: epoch %d, %d children, frozen at %d", c.name, o.meta.Epoch, len(o.born), o.meta.Frozen)
		}
	}
}

// TestPlan checks the plan for replica sets with a quorum, without a loss, with a possible loss, and without any
// replica left.
func TestPlan(t *testing.T) {
	w := newTestCluster(t, 7, []int{1, 2, 3, 7}, []int{1, 2, 5, 6}, []int{1, 4, 5, 6}, []int{4, 5, 6, 7})
	p, err := w.plan([]int{4, 5, 6, 7}, w.survey(1), w.survey(2), w.survey(3))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint64]Loss{1: Whole, 2: Complete, 3: Behind, 4: Gone, keys.MetaPartition: Whole} {
		if g := p.groupOf(id); g == nil || g.Loss != want {
			t.Errorf("partition %d: %+v, want %s", id, g, want)
		}
	}
	s := w.after(p)
	if got := s.Node(nodeID(5)).State; got != meta.Left {
		t.Errorf("a lost node is %s", got)
	}
	votes := func(part *topology.Partition) (out []int) {
		for _, r := range part.Set("r").Replicas {
			out = append(out, int(r.Node[0]))
		}
		slices.Sort(out)
		return out
	}
	parts := s.Topology.Partitions(testTable)
	for i, want := range [][]int{{1, 2, 3, 7}, {1, 2}, {1}} {
		if got := votes(parts[i]); !slices.Equal(got, want) {
			t.Errorf("partition %d is on %v, want %v", i+1, got, want)
		}
	}
	if e := parts[3]; e.ID == 4 || e.Parent != 0 || e.Moves != 0 || e.Epoch != 1 || len(votes(e)) != 3 {
		t.Errorf("replacement of the lost partition: %+v", e)
	}
	if len(p.Pieces) != 1 || p.Pieces[0].Partition != 4 {
		t.Errorf("gone: %+v", p.Pieces)
	}
	var text strings.Builder
	p.Print(&text)
	for _, want := range []string{"GONE", "BEHIND", "COMPLETE", "WHOLE", "DATA LOSS IS POSSIBLE"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// TestLongestLog checks that the survivor whose log ends in the later term is selected, even if another log is longer.
// A frozen partition is unfrozen by an entry at the end of its log.
func TestLongestLog(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	a, b := w.survey(1), w.survey(2)
	a.Replicas[1].Last = 500
	b.Replicas[1].LastTerm, b.Replicas[1].Term = 8, 8
	freeze := command.Entry{Kind: command.EntryFreeze, Epoch: 1}
	b.Replicas[1].Tail = []Command{{Index: 101, Place: 1, Data: command.AppendEntry(nil, &freeze)}}
	b.Replicas[1].Last = 101
	p, err := w.plan([]int{3, 4}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	g := p.groupOf(1)
	if g.Loss != Complete || g.Longest != b.Node || len(g.Votes) != 2 {
		t.Errorf("%+v", g)
	}
	if g.Thaw == nil || *g.Thaw != (Thaw{Index: 102, Term: 8, Epoch: 1}) {
		t.Errorf("unfrozen by %+v", g.Thaw)
	}
	if part := w.after(p).Topology.Partition(1); part.Epoch != 2 {
		t.Errorf("the map has epoch %d", part.Epoch)
	}
}

// TestMergeHalfway checks that a merge that is in the longest log is in the topology. Any other merge is canceled, and
// its right partition is unfrozen.
func TestMergeHalfway(t *testing.T) {
	for _, merged := range []bool{true, false} {
		w := newTestCluster(t, 4, []int{1, 2, 3, 4}, []int{1, 2, 3, 4})
		m, err := w.state.Topology.BeginMerge(1, 2, topology.ByOperator, time.Unix(1, 0))
		for _, r := range m.Partition(2).Sets[0].Replicas {
			if err == nil {
				m, err = m.MergeReady(2, r.ID, 90, time.Unix(1, 0))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		w.state = w.state.WithTopology(m)
		a, b := w.survey(1), w.survey(2)
		for _, s := range []*NodeState{a, b} {
			right := s.of(2)
			frozen, err := keys.DecodeMeta(right.Meta)
			if err != nil {
				t.Fatal(err)
			}
			frozen.Frozen = 90
			right.Meta = frozen.Append(nil)
		}
		if merged {
			e := command.Entry{Kind: command.EntryMerge, Epoch: 1, Merge: command.Merge{Right: 2, Frozen: 90,
				RightEpoch: 1}}
			left := b.of(1)
			left.Last, left.Tail = 101, []Command{{Index: 101, Place: 1, Data: command.AppendEntry(nil, &e)}}
		}
		p, err := w.plan([]int{3, 4}, a, b)
		if err != nil {
			t.Fatal(err)
		}
		parts := w.after(p).Topology.Partitions(testTable)
		if merged {
			if len(parts) != 1 || parts[0].ID != 1 || parts[0].Epoch != 2 || parts[0].Merge != nil ||
				p.groupOf(2) != nil {
				t.Errorf("merged: %d partitions, %+v", len(parts), parts[0])
			}
			continue
		}
		g := p.groupOf(2)
		if len(parts) != 2 || parts[1].Epoch != 2 || parts[0].Merge != nil || g.Thaw == nil || g.Thaw.Index != 101 {
			t.Errorf("canceled: %d partitions, %+v", len(parts), g)
		}
	}
}

// TestSplitInTail checks that a child that exists only in its parent's log is in the topology. Its members are on the
// same nodes as the parent's members.
func TestSplitInTail(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	m, err := w.state.Topology.BeginSplit(1, topology.Position{Ring: 1 << 62}, topology.ByOperator, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	w.state = w.state.WithTopology(m)
	a, b := w.survey(1), w.survey(2)
	cut := m.Partition(1).Split
	split := command.Split{Child: uint64(cut.Child), At: cut.At.Boundary(testTable)}
	for _, r := range m.Partition(1).ChildSets()[0].Replicas {
		split.Voters = append(split.Voters, keys.Member{Replica: uint64(r.ID), Node: r.Node})
	}
	e := command.Entry{Kind: command.EntrySplit, Epoch: 1, Split: split}
	parent := a.of(1)
	parent.Last, parent.Tail = 101, []Command{{Index: 101, Place: 1, Data: command.AppendEntry(nil, &e)}}
	p, err := w.plan([]int{3, 4}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	parts := w.after(p).Topology.Partitions(testTable)
	if len(parts) != 2 || parts[1].ID != cut.Child || parts[1].Parent != 1 || parts[0].Split != nil {
		t.Fatalf("%d partitions", len(parts))
	}
	child := p.groupOf(uint64(cut.Child))
	if len(child.Votes) != 2 || child.Votes[0].Node != a.Node || !child.Forced || len(parts[1].Sets[0].Replicas) != 2 {
		t.Errorf("the child is %+v", child)
	}
}

// TestOldRecords checks a recovery with metadata that may be old. No ID is assigned twice, and the topology follows the
// replicas: it contains a split that is missing from the metadata.
func TestOldRecords(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	s := w.survey(1)
	left := s.Replicas[1].Meta
	m, err := keys.DecodeMeta(left)
	if err != nil {
		t.Fatal(err)
	}
	child := m
	child.Partition, child.Epoch = 77, 2
	child.Span.Begin = topology.Position{Ring: 1 << 62}.Boundary(testTable)
	child.Parents = []keys.Parent{{Partition: m.Partition, Index: 50, Epoch: 1}}
	child.Voters = []keys.Member{{Replica: 900, Node: nodeID(1)}, {Replica: 901, Node: nodeID(2)}}
	m.Span.End, m.Epoch = child.Span.Begin, 2
	s.Replicas[1].Meta = m.Append(nil)
	s.Replicas = append(s.Replicas, Replica{Partition: 77, Replica: 900, Meta: child.Append(nil), Last: 100,
		LastTerm: 7, Term: 7})
	p, err := w.plan([]int{2, 3, 4}, s)
	if err != nil {
		t.Fatal(err)
	}
	now := w.after(p).Topology
	parts := now.Partitions(testTable)
	if len(parts) != 2 || parts[1].ID != 77 || parts[1].Parent != 1 || len(p.Pieces) != 0 {
		t.Errorf("%d partitions, gone %+v", len(parts), p.Pieces)
	}
	if now.NextPartition() < 78+skipped || now.NextReplica() < 902+skipped {
		t.Errorf("the next ids are %d and %d", now.NextPartition(), now.NextReplica())
	}
}

// TestRefused checks that no plan is created from incomplete or contradictory information.
func TestRefused(t *testing.T) {
	w := newTestCluster(t, 4, []int{1, 2, 3, 4})
	stranger := w.survey(2)
	stranger.Cluster = ID{9}
	empty := w.survey(1)
	empty.Version, empty.Records = 0, nil
	for _, c := range []struct {
		text string
		lost []int
		left []*NodeState
	}{
		{"no survey was specified", nil, nil},
		{"the survey of nodes 03000000 (n3) and 04000000 (n4) is missing", nil, []*NodeState{w.survey(1), w.survey(2)}},
		{"the survey of node 04000000 (n4) is missing", []int{3}, []*NodeState{w.survey(1), w.survey(2)}},
		{"is specified with --lost, but its survey exists", []int{2, 3, 4}, []*NodeState{w.survey(1), w.survey(2)}},
		{"two surveys", []int{2, 3, 4}, []*NodeState{w.survey(1), w.survey(1)}},
		{"different clusters", []int{3, 4}, []*NodeState{w.survey(1), stranger}},
		{"no node is lost", nil, []*NodeState{w.survey(1), w.survey(2), w.survey(3), w.survey(4)}},
		{"has a quorum among these nodes", []int{4}, []*NodeState{w.survey(1), w.survey(2), w.survey(3)}},
		{"Restore a backup", []int{2, 3, 4}, []*NodeState{empty}},
	} {
		if _, err := w.plan(c.lost, c.left...); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %q", err, c.text)
		}
	}
}

// TestAnyLoss checks the plan for any set of lost nodes and any lengths of the remaining logs. The topology must tile
// the ring. Every set must have surviving members, starting with the node that has the longest log. No ID may be
// assigned twice.
func TestAnyLoss(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const nodes = 7
		var parts [][]int
		for range rapid.IntRange(1, 6).Draw(r, "partitions") {
			order := rapid.Permutation([]int{1, 2, 3, 4, 5, 6, 7}).Draw(r, "nodes")
			parts = append(parts, order[:rapid.SampledFrom([]int{1, 3, 4}).Draw(r, "voters")])
		}
		w := newTestCluster(t, nodes, parts...)
		var lost []int
		var left []*NodeState
		for n := 1; n <= nodes; n++ {
			if n > 1 && rapid.Bool().Draw(r, "lost") {
				lost = append(lost, n)
				continue
			}
			s := w.survey(n)
			for i := range s.Replicas {
				s.Replicas[i].Last += uint64(rapid.IntRange(0, 3).Draw(r, "more"))
				s.Replicas[i].LastTerm += uint64(rapid.IntRange(0, 1).Draw(r, "term"))
			}
			left = append(left, s)
		}
		p, err := w.plan(lost, left...)
		if err != nil {
			if !strings.Contains(err.Error(), "quorum among these") && !strings.Contains(err.Error(),
				"no node is lost") {
				r.Fatal(err)
			}
			return
		}
		s := w.after(p)
		for _, part := range s.Topology.Partitions(testTable) {
			g := p.groupOf(uint64(part.ID))
			if g == nil || !g.Forced {
				continue
			}
			longest := slices.IndexFunc(left, func(s *NodeState) bool { return s.Node == g.Longest })
			for _, o := range left {
				if rep := o.of(g.Partition); rep != nil && rep.longer(left[longest].of(g.Partition)) > 0 {
					r.Fatalf("partition %d: the log of %s is longer than that of %s", part.ID, o.Node.Short(),
						g.Longest.Short())
				}
			}
			if g.Votes[0].Node != g.Longest || g.Loss != Whole && len(g.Votes) > 2 {
				r.Fatalf("partition %d: %+v", part.ID, g)
			}
			for _, m := range part.Sets[0].Replicas {
				if slices.Contains(lost, int(m.Node[0])) {
					r.Fatalf("partition %d has a replica on a node that is lost", part.ID)
				}
			}
		}
	})
}
