// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const table = 600

// TestOrders checks any sequence of splits and merges that are completed or canceled at any time. The partitions of a
// table must cover the ring after every step (MG1). No span changes twice within split.Cooldown unless the request
// skips the cooldown (MG2). The number of merges in progress must not exceed MaxConcurrent (MG3). The ID of a removed
// partition is never reused.
func TestOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := topology.New().WithLevel(MinFeatureLevel).AddTable(table, rapid.IntRange(2, 12).Draw(t, "partitions"),
			[]topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, now := meta.Empty().WithTopology(m), time.UnixMilli(1e12)
		changed, gone := map[topology.PartitionID]time.Time{}, map[topology.PartitionID]bool{}
		must := func(m *topology.Snapshot, err error) {
			if err != nil {
				t.Fatal(err)
			}
			s = s.WithTopology(m)
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			ps := s.Topology.Partitions(table)
			p := ps[rapid.IntRange(0, len(ps)-1).Draw(t, "partition")]
			switch j := p.Merge; {
			case p.Split != nil && p.Split.Canceled && rapid.Bool().Draw(t, "in time"):
				changed[p.ID] = now
				must(s.Topology.EndSplitCancel(p.ID, now))
			case p.Split != nil && rapid.IntRange(0, 3).Draw(t, "recall") == 0:
				must(s.Topology.CancelSplit(p.ID))
			case p.Split != nil:
				changed[p.ID], changed[p.Split.Child] = now, now
				must(s.Topology.EndSplit(p.ID, now))
			case j != nil && j.Stage == topology.Merging:
				changed[j.Left], gone[j.Right] = now, true
				must(s.Topology.EndMerge(j.Left, now))
			case j != nil && j.Stage == topology.Unfreezing:
				changed[j.Left], changed[j.Right] = now, now
				must(s.Topology.EndMergeCancel(p.ID, now))
			case j != nil && rapid.IntRange(0, 3).Draw(t, "recall") == 0:
				must(s.Topology.CancelMerge(p.ID))
			case j != nil:
				r := s.Topology.Partition(j.Right).Sets[0].Replicas
				must(s.Topology.MergeReady(j.Right, r[rapid.IntRange(0, len(r)-1).Draw(t, "replica")].ID, 40, now))
			case rapid.IntRange(0, 2).Draw(t, "split") == 0:
				o := split.Request{Table: table, Partition: p.ID, SkipCooldown: true,
					At: topology.Position{Ring: rapid.Uint64().Draw(t, "at")}}
				if next, err := o.Apply(s, now); err == nil {
					s = next
				}
			default:
				o := Request{Table: table, First: p.ID, Second: ps[rapid.IntRange(0, len(ps)-1).Draw(t, "with")].ID,
					SkipCooldown: rapid.IntRange(0, 4).Draw(t, "hurry") == 0}
				next, gathering, err := o.Apply(s, now)
				if err != nil {
					continue
				}
				for _, id := range []topology.PartitionID{o.First, o.Second} {
					if last, ok := changed[id]; ok && !o.SkipCooldown && now.Sub(last) < split.Cooldown || gathering {
						t.Fatalf("partition %d is merged %v after it had changed, gathering %v", id, now.Sub(last), gathering)
					}
				}
				s = next
			}
			if err := s.Topology.Validate(); err != nil {
				t.Fatal(err)
			}
			if again, err := topology.Decode(s.Topology.Append(nil)); err != nil ||
				string(again.Append(nil)) != string(s.Topology.Append(nil)) {
				t.Fatalf("the decoded topology differs: %v", err)
			}
			if n := InProgress(s.Topology); n > MaxConcurrent {
				t.Fatalf("%d merges are in progress", n)
			}
			for id := range gone {
				if s.Topology.Partition(id) != nil {
					t.Fatalf("partition %d is back", id)
				}
			}
		}
	})
}

// TestGathering checks that neighbors on different nodes are first colocated and then merged.
func TestGathering(t *testing.T) {
	now := time.UnixMilli(1e12)
	m, err := topology.New().WithLevel(MinFeatureLevel).CutTable(table, []topology.Piece{
		{Places: []topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}}},
		{Begin: topology.Position{Ring: 1 << 63}, Places: []topology.Place{{Region: "r",
			Nodes: []topology.NodeID{{1}, {2}, {4}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := Request{Table: table, First: 2, Second: 1}
	s, gathering, err := o.Apply(meta.Empty().WithTopology(m), now)
	if err != nil || !gathering || s.Topology.Partition(2).Pin == nil || s.Topology.Partition(1).Merge != nil {
		t.Fatalf("%v, %v", gathering, err)
	}
	if m, _, err = s.Topology.AddMember(2, "r", topology.NodeID{3}, topology.Joining); err != nil {
		t.Fatal(err)
	}
	if next, gathering, err := o.Apply(s.WithTopology(m), now); err != nil || !gathering || next.Topology != m {
		t.Errorf("ordered again while a replica is on its way: %v, %v", gathering, err)
	}
	set := m.Partition(2).Sets[0]
	if m, err = m.Mark(2, set.On(topology.NodeID{4}).ID, topology.Leaving); err == nil {
		m, err = m.RecordVoters(2, "r", []topology.ReplicaID{set.Replicas[0].ID, set.Replicas[1].ID,
			set.Replicas[3].ID})
	}
	if err != nil {
		t.Fatal(err)
	}
	s, gathering, err = o.Apply(s.WithTopology(m), now)
	if err != nil || gathering || s.Topology.Partition(1).Merge == nil {
		t.Errorf("%v, %v", gathering, err)
	}
}
