// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// fakeReplicas is the set of replicas on a node, with their IDs.
type fakeReplicas struct {
	here map[topology.PartitionID]topology.ReplicaID
	did  []string
}

func (s *fakeReplicas) Has(id topology.PartitionID) bool                  { return s.here[id] != 0 }
func (s *fakeReplicas) Member(id topology.PartitionID) topology.ReplicaID { return s.here[id] }
func (s *fakeReplicas) IDs() []topology.PartitionID                       { return slices.Sorted(maps.Keys(s.here)) }
func (s *fakeReplicas) TableOf(topology.PartitionID) uint32               { return 0 }
func (s *fakeReplicas) Holds(uint32, topology.Span) bool                  { return false }
func (s *fakeReplicas) Absorber(topology.PartitionID) (topology.PartitionID, uint64) {
	return 0, 0
}
func (s *fakeReplicas) Create(ps ...*topology.Partition) error {
	for _, p := range ps {
		var members []topology.ReplicaID
		for _, r := range p.Sets[0].Replicas {
			members = append(members, r.ID)
		}
		s.did = append(s.did, fmt.Sprintf("create %d", members))
	}
	return nil
}

func (s *fakeReplicas) Join(id topology.PartitionID, r topology.ReplicaID) error {
	s.here[id] = r
	s.did = append(s.did, fmt.Sprintf("join %d", r))
	return nil
}

func (s *fakeReplicas) Drop(ids ...topology.PartitionID) error {
	for _, id := range ids {
		s.did = append(s.did, fmt.Sprintf("drop %d", s.here[id]))
		delete(s.here, id)
	}
	slices.Sort(s.did)
	return nil
}

// TestLateInitialVoter checks how a node creates its replica if it first sees a new partition after members have been
// added to it. The only voter must create the partition, because no other node could send it a snapshot (RC5). One of
// several voters receives a snapshot, as does a replica that has been added (RC4).
func TestLateInitialVoter(t *testing.T) {
	self := topology.NodeID{1}
	member := func(n byte, state topology.MemberState) topology.Replica {
		return topology.Replica{ID: topology.ReplicaID(n), Node: topology.NodeID{n}, State: state}
	}
	v1, v2, v3 := member(1, topology.Voter), member(2, topology.Voter), member(3, topology.Voter)
	learns, joins, leaves := member(2, topology.Learner), member(2, topology.Joining), member(2, topology.Leaving)
	moved := topology.Partition{Moves: 1}
	for name, c := range map[string]struct {
		p    topology.Partition
		set  []topology.Replica
		want string
	}{
		"new":             {topology.Partition{}, []topology.Replica{v1, v2, v3}, "create [1 2 3]"},
		"learner added":   {moved, []topology.Replica{v1, learns}, "create [1]"},
		"voters to come":  {moved, []topology.Replica{joins, v1}, "create [1]"},
		"several voters":  {moved, []topology.Replica{v1, v2, v3}, "join 1"},
		"another leaves":  {moved, []topology.Replica{v1, leaves}, "join 1"},
		"joins":           {moved, []topology.Replica{member(1, topology.Joining), v2}, "join 1"},
		"has been split":  {topology.Partition{Moves: 1, Epoch: 2}, []topology.Replica{v1}, "join 1"},
		"child":           {topology.Partition{Moves: 1, Parent: 7}, []topology.Replica{v1}, "join 1"},
		"not on the node": {moved, []topology.Replica{v2}, ""},
	} {
		p := c.p
		p.ID, p.Table, p.Epoch = 9, 1000, max(p.Epoch, keys.InitialEpoch)
		p.Sets = []topology.ReplicaSet{{Region: "eu", Replicas: c.set}}
		s := &fakeReplicas{here: map[topology.PartitionID]topology.ReplicaID{}}
		l := &LocalReconciler{Node: self, Host: s}
		if err := l.create(func(yield func(*topology.Partition) bool) { yield(&p) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(s.did, ", "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(p.Sets[0].Replicas) != len(c.set) {
			t.Errorf("%s: the topology was modified", name)
		}
	}
}

// TestOwnRemovalIsHeard checks a node that was considered dead and receives its own removal from the meta partition.
// The node keeps its replica of the meta partition until another node addresses it by a newer replica ID. It must then
// join once with the new ID. Otherwise, the node would never receive another update.
func TestOwnRemovalIsHeard(t *testing.T) {
	self, other := topology.NodeID{1}, topology.NodeID{2}
	with, err := topology.New().AddMeta([]topology.Place{{Region: "eu", Nodes: []topology.NodeID{other}}})
	if err != nil {
		t.Fatal(err)
	}
	with, id, err := with.AddMember(topology.MetaPartition, "eu", self, topology.Learner)
	if err != nil {
		t.Fatal(err)
	}
	leaving, err := with.Mark(topology.MetaPartition, id, topology.Leaving)
	if err != nil {
		t.Fatal(err)
	}
	without, err := leaving.RecordVoters(topology.MetaPartition, "eu",
		[]topology.ReplicaID{leaving.Meta().Sets[0].On(other).ID})
	if err != nil || without.Meta().Sets[0].On(self) != nil {
		t.Fatal(err)
	}
	s := &fakeReplicas{here: map[topology.PartitionID]topology.ReplicaID{topology.MetaPartition: id}}
	l := &LocalReconciler{Node: self, Host: s}
	if err := l.Remove(with, without); err != nil || s.here[topology.MetaPartition] != id {
		t.Fatalf("%v, %v", s.did, err)
	}
	for n := range 3 {
		for _, spoken := range []topology.ReplicaID{id, id + 5} {
			if done, err := l.Rejoin(spoken); err != nil || done != (n == 0 && spoken > id) {
				t.Fatalf("Rejoin(%d): %v, %v", spoken, done, err)
			}
		}
	}
	if got := strings.Join(s.did, ", "); got != fmt.Sprintf("drop %d, join %d", id, id+5) {
		t.Error(got)
	}
}
