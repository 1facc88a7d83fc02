// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// keeperOf returns the keeper of a cluster with the given topology. Its records are in memory.
func keeperOf(t *testing.T, m *topology.Snapshot) *meta.Keeper {
	t.Helper()
	records, version := map[string][]byte{}, uint64(0)
	scan := func(fn func(key, value []byte) error) (uint64, error) {
		for _, key := range slices.Sorted(maps.Keys(records)) {
			if err := fn([]byte(key), records[key]); err != nil {
				return 0, err
			}
		}
		return version, nil
	}
	change := func(_ context.Context, c command.Records) (uint64, error) {
		for _, r := range c.Put {
			records[string(r.Key)] = r.Value
		}
		version++
		return version, nil
	}
	k, err := meta.New(scan, change, meta.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	want(t, k, m)
	return k
}

// want stores m as the topology.
func want(t *testing.T, k *meta.Keeper, m *topology.Snapshot) {
	t.Helper()
	if _, err := k.Update(t.Context(), func(s *meta.State) (*meta.State, error) {
		return s.WithTopology(m), nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestLatePublication checks that a leader's report about its voters applies only to the topology for which it was
// made. Before a late report arrives, another leader may have published its voters, and the topology may request
// another change. The late report could then hide a voter that must still be removed.
func TestLatePublication(t *testing.T) {
	must := func(m *topology.Snapshot, err error) *topology.Snapshot {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	place := topology.Place{Region: "r"}
	for i := range 3 {
		place.Nodes = append(place.Nodes, topology.NodeID{byte(i + 1)})
	}
	first := must(topology.New().AddTable(600, 1, []topology.Place{place}))
	first, fourth, err := first.AddMember(1, "r", topology.NodeID{4}, topology.Joining)
	first = must(first, err)
	k := keeperOf(t, first)
	then := k.State().Topology.Partition(1)
	found := []topology.ReplicaID{1, 2, 3, fourth}
	second := must(first.RecordVoters(1, "r", found))
	second, fifth, err := second.AddMember(1, "r", topology.NodeID{5}, topology.Joining)
	second = must(must(second, err).Mark(1, fourth, topology.Leaving))
	second = must(second.RecordVoters(1, "r", []topology.ReplicaID{1, 2, 3, fifth}))
	second = must(second.Mark(1, fifth, topology.Leaving))
	want(t, k, second)
	m := MembershipReconciler{Keeper: k}
	if err := m.publish(t.Context(), then, "r", found); err != nil {
		t.Fatal(err)
	}
	if k.State().Topology.Partition(1).Sets[0].Member(fifth) == nil {
		t.Error("the topology has lost a voter")
	}
	if err := m.publish(t.Context(), k.State().Topology.Partition(1), "r", []topology.ReplicaID{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if k.State().Topology.Partition(1).Sets[0].Member(fifth) != nil {
		t.Error("the topology still contains a removed voter")
	}
}
