// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// set returns a replica set of replicas 1, 2, ... on nodes with the same numbers.
func set(states ...topology.MemberState) *topology.ReplicaSet {
	s := &topology.ReplicaSet{Region: "r"}
	for i, state := range states {
		s.Replicas = append(s.Replicas, topology.Replica{ID: topology.ReplicaID(i + 1),
			Node: topology.NodeID{byte(i + 1)}, State: state})
	}
	return s
}

// leads returns the status of a leader that considers all other replicas caught up, except the replicas in lag.
func leads(replica uint64, voters, learners []uint64, lag ...uint64) *raftgroup.Status {
	s := &raftgroup.Status{Replica: replica, Leading: true, LeaseLeft: 1,
		Members: &pb.ConfState{Voters: voters, Learners: learners}}
	for _, id := range append(append([]uint64{}, voters...), learners...) {
		if id == replica {
			continue
		}
		p := raftgroup.PeerStatus{Replica: id, Match: 100, State: "replicate", Active: true}
		for _, l := range lag {
			if l == id {
				p.Match, p.Lag = 0, 1<<20
			}
		}
		for _, l := range learners {
			p.Learner = p.Learner || l == id
		}
		s.Peers = append(s.Peers, p)
	}
	return s
}

// abstaining marks members that should not become the leader.
func abstaining(s *raftgroup.Status, ids ...uint64) *raftgroup.Status {
	for i := range s.Peers {
		s.Peers[i].Abstains = slices.Contains(ids, s.Peers[i].Replica)
	}
	return s
}

// TestNext checks the next step of the leader of a replica set in each state.
func TestNext(t *testing.T) {
	const v, j, l, g = topology.Voter, topology.Joining, topology.Learner, topology.Leaving
	change := func(id uint64, as raftgroup.Role) raftgroup.Change {
		c := raftgroup.Change{Member: raftgroup.Member{Replica: id}, As: as}
		if as != raftgroup.Gone {
			c.Member.Node = raftgroup.NodeID{byte(id)}
		}
		return c
	}
	joint := leads(1, []uint64{1, 2, 3}, nil)
	joint.Members.VotersOutgoing = []uint64{1, 2}
	for _, c := range []struct {
		name   string
		set    *topology.ReplicaSet
		status *raftgroup.Status
		want   Step
	}{
		{"nothing to do", set(v, v, v, v), leads(1, []uint64{1, 2, 3, 4}, nil), Step{}},
		{"a change is under way", set(v, v, v), joint, Step{}},
		{"those who join learn first", set(v, j, j), leads(1, []uint64{1}, nil),
			Step{Changes: []raftgroup.Change{change(2, raftgroup.Learner), change(3, raftgroup.Learner)}}},
		{"a learner for good is added, too", set(v, l), leads(1, []uint64{1}, nil),
			Step{Changes: []raftgroup.Change{change(2, raftgroup.Learner)}}},
		{"never two voters", set(v, j, j), leads(1, []uint64{1}, []uint64{2, 3}, 3), Step{}},
		{"three at once", set(v, j, j), leads(1, []uint64{1}, []uint64{2, 3}),
			Step{Changes: []raftgroup.Change{change(2, raftgroup.Voter), change(3, raftgroup.Voter)}}},
		{"the map hears of it", set(v, j, j), leads(1, []uint64{1, 2, 3}, nil),
			Step{Voters: []topology.ReplicaID{1, 2, 3}}},
		{"who leaves waits for who comes", set(v, v, v, g, j), leads(1, []uint64{1, 2, 3, 4}, []uint64{5}, 5), Step{}},
		{"both in one stroke", set(v, v, v, g, j), leads(1, []uint64{1, 2, 3, 4}, []uint64{5}),
			Step{Changes: []raftgroup.Change{change(5, raftgroup.Voter), change(4, raftgroup.Gone)}}},
		{"a leader that leaves gives its leadership away", set(g, v, v, v, j),
			leads(1, []uint64{1, 2, 3, 4}, []uint64{5}, 2), Step{Transfer: 3}},
		{"not to a voter that abstains", set(g, v, v, v, j),
			abstaining(leads(1, []uint64{1, 2, 3, 4}, []uint64{5}), 2, 3), Step{Transfer: 4}},
		{"unless all others do", set(g, v, v, v, j),
			abstaining(leads(1, []uint64{1, 2, 3, 4}, []uint64{5}), 2, 3, 4), Step{Transfer: 2}},
		{"the only voter cannot", set(g, j), leads(1, []uint64{1}, []uint64{2}),
			Step{Changes: []raftgroup.Change{change(2, raftgroup.Voter), change(1, raftgroup.Gone)}}},
		{"a learner that the map gave up goes", set(v, v, v), leads(1, []uint64{1, 2, 3}, []uint64{9}),
			Step{Changes: []raftgroup.Change{change(9, raftgroup.Gone)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, NextStep(c.set, c.status)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// disk holds the replicas of a node.
type disk map[topology.PartitionID]string

func (d disk) Member(id topology.PartitionID) (r topology.ReplicaID) {
	_, _ = fmt.Sscanf(d[id], "empty %d", &r)
	return r
}
func (d disk) Has(id topology.PartitionID) bool                             { return d[id] != "" }
func (d disk) IDs() []topology.PartitionID                                  { return slices.Sorted(maps.Keys(d)) }
func (d disk) TableOf(topology.PartitionID) uint32                          { return 0 }
func (d disk) Absorber(topology.PartitionID) (topology.PartitionID, uint64) { return 0, 0 }
func (d disk) Holds(uint32, topology.Span) bool                             { return false }
func (d disk) Create(ps ...*topology.Partition) error {
	for _, p := range ps {
		d[p.ID] = "born"
	}
	return nil
}
func (d disk) Join(id topology.PartitionID, r topology.ReplicaID) error {
	d[id] = fmt.Sprint("empty ", r)
	return nil
}
func (d disk) Drop(ids ...topology.PartitionID) error {
	for _, id := range ids {
		delete(d, id)
	}
	return nil
}

// TestLocal checks that a node has the replicas that the topology assigns to it. A replica is created with its
// partition. The replica is created empty if the node is added later or if the members have already changed. It is
// removed when the node is no longer a member.
func TestLocal(t *testing.T) {
	a, b := topology.NodeID{1}, topology.NodeID{2}
	must := func(s *topology.Snapshot, err error) *topology.Snapshot {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	both := []topology.Place{{Region: "r", Nodes: []topology.NodeID{a, b}}}
	only := []topology.Place{{Region: "r", Nodes: []topology.NodeID{a}}}
	none := topology.New()
	m := must(none.AddTable(600, 1, both)) // partition 1
	m = must(m.AddTable(601, 1, only))     // partition 2
	joined, replica, err := m.AddMember(2, "r", b, topology.Joining)
	joined = must(joined, err)
	converged := must(joined.RecordVoters(2, "r", []topology.ReplicaID{joined.Partition(2).Sets[0].Replicas[0].ID,
		replica}))
	d, empty := disk{}, fmt.Sprint("empty ", replica)
	local := &LocalReconciler{Node: b, Host: d}
	follow := func(from, to *topology.Snapshot, want disk) {
		t.Helper()
		for range 2 { // (RC1)
			if err := local.Create(from, to); err != nil {
				t.Fatal(err)
			}
			if err := local.Remove(from, to); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, d); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	follow(none, m, disk{1: "born"})
	follow(m, joined, disk{1: "born", 2: empty})
	follow(joined, converged, disk{1: "born", 2: empty})
	delete(d, 2)
	// A voter of a replica set that has already changed is created without data.
	follow(none, converged, disk{1: "born", 2: empty})
	leaving := must(converged.Mark(2, replica, topology.Leaving))
	follow(converged, leaving, disk{1: "born", 2: empty})
	gone := must(leaving.RecordVoters(2, "r", []topology.ReplicaID{converged.Partition(2).Sets[0].Replicas[0].ID}))
	follow(leaving, gone, disk{1: "born"})
	again, next, err := gone.AddMember(2, "r", b, topology.Joining)
	again = must(again, err)
	d[2] = empty // a node that still has its replica from before its removal gets a replica with another ID instead
	follow(leaving, again, disk{1: "born", 2: fmt.Sprint("empty ", next)})
	follow(again, again.DropTable(600).DropTable(601), disk{})
}
