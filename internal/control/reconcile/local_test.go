// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// shelf is the set of replicas on a node, with their IDs.
type shelf struct {
	here map[topology.PartitionID]topology.ReplicaID
	did  []string
}

func (s *shelf) Has(id topology.PartitionID) bool                  { return s.here[id] != 0 }
func (s *shelf) Member(id topology.PartitionID) topology.ReplicaID { return s.here[id] }
func (s *shelf) IDs() []topology.PartitionID                       { return slices.Sorted(maps.Keys(s.here)) }
func (s *shelf) TableOf(topology.PartitionID) uint32               { return 0 }
func (s *shelf) Holds(uint32, topology.Span) bool                  { return false }
func (s *shelf) Absorber(topology.PartitionID) (topology.PartitionID, uint64) {
	return 0, 0
}
func (s *shelf) Create(ps ...*topology.Partition) error { return fmt.Errorf("create %d", len(ps)) }
func (s *shelf) Join(id topology.PartitionID, r topology.ReplicaID) error {
	s.here[id] = r
	s.did = append(s.did, fmt.Sprintf("join %d", r))
	return nil
}

func (s *shelf) Drop(ids ...topology.PartitionID) error {
	for _, id := range ids {
		s.did = append(s.did, fmt.Sprintf("drop %d", s.here[id]))
		delete(s.here, id)
	}
	slices.Sort(s.did)
	return nil
}

// TestOwnRemovalIsHeard checks a node that was considered dead and receives its own removal from the meta partition.
// It keeps its replica of the meta partition until another node addresses it by a newer replica ID. It then joins with
// the new ID, once. Without this the node would never receive another update.
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
	leaving, err := with.MarkLeaving(topology.MetaPartition, id)
	if err != nil {
		t.Fatal(err)
	}
	without, err := leaving.RecordVoters(topology.MetaPartition, "eu",
		[]topology.ReplicaID{leaving.Meta().Sets[0].On(other).ID})
	if err != nil || without.Meta().Sets[0].On(self) != nil {
		t.Fatal(err)
	}
	s := &shelf{here: map[topology.PartitionID]topology.ReplicaID{topology.MetaPartition: id}}
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
