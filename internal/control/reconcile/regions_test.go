// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// twoSets returns a partition with a set in eu on nodes 11 to 13, listed first, and a set in us on nodes 1 to 3. The
// nodes have the meta partition of us in common.
func twoSets(t *testing.T) *topology.Snapshot {
	t.Helper()
	us := topology.Place{Region: "us", Nodes: []topology.NodeID{{1}, {2}, {3}}}
	eu := topology.Place{Region: "eu", Nodes: []topology.NodeID{{11}, {12}, {13}}}
	m, err := topology.New().AddMeta([]topology.Place{us})
	if err == nil {
		m, err = m.AddTable(600, 1, []topology.Place{eu, us})
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestSplitEntryOfRegion checks that the log entry of a split contains the child's members in the region of the log.
func TestSplitEntryOfRegion(t *testing.T) {
	m, err := twoSets(t).BeginSplit(1, topology.Position{Ring: 1 << 62}, topology.ByOperator, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	p := m.Partition(1)
	for region, first := range map[string]byte{"us": 1, "eu": 11} {
		s := splitEntry(p, region)
		if len(s.Voters) != 3 {
			t.Fatalf("the entry in %s has voters %v", region, s.Voters)
		}
		for i, v := range s.Voters {
			if v.Node[0] != first+byte(i) {
				t.Errorf("the entry in %s has a voter on node %d", region, v.Node[0])
			}
		}
	}
}

// TestStepOfRegion checks that the leader of a set acts on the set in its region: the leader in us adds the joining
// replica of us, and the leader in eu has nothing to do.
func TestStepOfRegion(t *testing.T) {
	m, _, err := twoSets(t).AddMember(1, "us", topology.NodeID{4}, topology.Joining)
	if err != nil {
		t.Fatal(err)
	}
	p := m.Partition(1)
	for region, want := range map[string]int{"us": 1, "eu": 0} {
		s := still{leading: true, level: m.Level(),
			status: raftgroup.Status{Leading: true, Members: &pb.ConfState{}}}
		for _, r := range p.Set(region).Replicas {
			if r.State == topology.Voter {
				s.status.Members.Voters = append(s.status.Members.Voters, uint64(r.ID))
			}
		}
		s.status.Replica = s.status.Members.Voters[0]
		members := MembershipReconciler{Region: region, Keeper: keeperOf(t, m)}
		if _, err := members.step(t.Context(), &s, p, m.Level()); err != nil || len(s.changes) != want {
			t.Errorf("the leader in %s changes %v: %v", region, s.changes, err)
		}
	}
}

// TestOnlyVoterOfRegion checks that the only voter of a set is created although the partition has a set in another
// region, and that it is the only member of the created partition.
func TestOnlyVoterOfRegion(t *testing.T) {
	us := topology.Place{Region: "us", Nodes: []topology.NodeID{{1}}}
	eu := topology.Place{Region: "eu", Nodes: []topology.NodeID{{11}, {12}, {13}}}
	m, err := topology.New().AddTable(600, 1, []topology.Place{eu, us})
	if err == nil {
		m, _, err = m.AddMember(1, "us", topology.NodeID{2}, topology.Learner)
	}
	if err == nil {
		m, err = m.RecordVoters(1, "us", []topology.ReplicaID{m.Partition(1).Set("us").On(topology.NodeID{1}).ID})
	}
	if err != nil {
		t.Fatal(err)
	}
	p := *m.Partition(1)
	p.Moves = 1
	first := initial(&p, p.Set("us").On(topology.NodeID{1}))
	if first == nil || len(first.Sets) != 1 || first.Sets[0].Region != "us" || len(first.Sets[0].Replicas) != 1 {
		t.Errorf("the only voter is created as %+v", first)
	}
	if first := initial(&p, p.Set("eu").On(topology.NodeID{11})); first != nil {
		t.Errorf("one of three voters is created as %+v", first)
	}
	if len(p.Sets) != 2 || len(p.Set("us").Replicas) != 2 {
		t.Error("the topology was modified")
	}
}
