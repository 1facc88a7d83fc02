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

// TestOrders: whatever is split and merged, carried out or taken back, in whatever sequence and at whatever times, a
// table tiles its ring at every moment (MG1), nobody's span changes twice within split.Pause unless in haste (MG2), no
// more than AtOnce merges are under way (MG3), and an id that is gone does not come back.
func TestOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := topology.New().WithLevel(Level).AddTable(table, rapid.IntRange(2, 12).Draw(t, "partitions"),
			[]topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, now := meta.Empty().WithMap(m), time.UnixMilli(1e12)
		changed, gone := map[topology.PartitionID]time.Time{}, map[topology.PartitionID]bool{}
		must := func(m *topology.Snapshot, err error) {
			if err != nil {
				t.Fatal(err)
			}
			s = s.WithMap(m)
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			ps := s.Map.Partitions(table)
			p := ps[rapid.IntRange(0, len(ps)-1).Draw(t, "partition")]
			switch j := p.Join; {
			case p.Cut != nil && p.Cut.Recalled && rapid.Bool().Draw(t, "in time"):
				changed[p.ID] = now
				must(s.Map.EndSplitRecall(p.ID, now))
			case p.Cut != nil && rapid.IntRange(0, 3).Draw(t, "recall") == 0:
				must(s.Map.RecallSplit(p.ID))
			case p.Cut != nil:
				changed[p.ID], changed[p.Cut.Child] = now, now
				must(s.Map.EndSplit(p.ID, now))
			case j != nil && j.Stage == topology.Merging:
				changed[j.Left], gone[j.Right] = now, true
				must(s.Map.EndJoin(j.Left, now))
			case j != nil && j.Stage == topology.Thawing:
				changed[j.Left], changed[j.Right] = now, now
				must(s.Map.EndRecall(p.ID, now))
			case j != nil && rapid.IntRange(0, 3).Draw(t, "recall") == 0:
				must(s.Map.RecallJoin(p.ID))
			case j != nil:
				r := s.Map.Partition(j.Right).Sets[0].Replicas
				must(s.Map.JoinReady(j.Right, r[rapid.IntRange(0, len(r)-1).Draw(t, "replica")].ID, 40, now))
			case rapid.IntRange(0, 2).Draw(t, "split") == 0:
				o := split.Order{Table: table, Partition: p.ID, Hasty: true,
					At: topology.Position{Ring: rapid.Uint64().Draw(t, "at")}}
				if next, err := o.Apply(s, now); err == nil {
					s = next
				}
			default:
				o := Order{Table: table, First: p.ID, Second: ps[rapid.IntRange(0, len(ps)-1).Draw(t, "with")].ID,
					Hasty: rapid.IntRange(0, 4).Draw(t, "hurry") == 0}
				next, gathering, err := o.Apply(s, now)
				if err != nil {
					continue
				}
				for _, id := range []topology.PartitionID{o.First, o.Second} {
					if last, ok := changed[id]; ok && !o.Hasty && now.Sub(last) < split.Pause || gathering {
						t.Fatalf("partition %d is merged %v after it had changed, gathering %v", id, now.Sub(last), gathering)
					}
				}
				s = next
			}
			if err := s.Map.Validate(); err != nil {
				t.Fatal(err)
			}
			if again, err := topology.Decode(s.Map.Append(nil)); err != nil ||
				string(again.Append(nil)) != string(s.Map.Append(nil)) {
				t.Fatalf("the map does not come back as it was: %v", err)
			}
			if n := UnderWay(s.Map); n > AtOnce {
				t.Fatalf("%d merges are under way", n)
			}
			for id := range gone {
				if s.Map.Partition(id) != nil {
					t.Fatalf("partition %d is back", id)
				}
			}
		}
	})
}

// TestGathering: neighbours on different nodes are wanted on the same ones first, and merged when they are there.
func TestGathering(t *testing.T) {
	now := time.UnixMilli(1e12)
	m, err := topology.New().WithLevel(Level).CutTable(table, []topology.Piece{
		{Places: []topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}}},
		{Begin: topology.Position{Ring: 1 << 63}, Places: []topology.Place{{Region: "r",
			Nodes: []topology.NodeID{{1}, {2}, {4}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := Order{Table: table, First: 2, Second: 1}
	s, gathering, err := o.Apply(meta.Empty().WithMap(m), now)
	if err != nil || !gathering || s.Map.Partition(2).Wish == nil || s.Map.Partition(1).Join != nil {
		t.Fatalf("%v, %v", gathering, err)
	}
	if m, _, err = s.Map.AddMember(2, "r", topology.NodeID{3}, topology.Joining); err != nil {
		t.Fatal(err)
	}
	if next, gathering, err := o.Apply(s.WithMap(m), now); err != nil || !gathering || next.Map != m {
		t.Errorf("ordered again while a replica is on its way: %v, %v", gathering, err)
	}
	set := m.Partition(2).Sets[0]
	if m, err = m.MarkLeaving(2, set.On(topology.NodeID{4}).ID); err == nil {
		m, err = m.RecordVoters(2, "r", []topology.ReplicaID{set.Replicas[0].ID, set.Replicas[1].ID,
			set.Replicas[3].ID})
	}
	if err != nil {
		t.Fatal(err)
	}
	s, gathering, err = o.Apply(s.WithMap(m), now)
	if err != nil || gathering || s.Map.Partition(1).Join == nil {
		t.Errorf("%v, %v", gathering, err)
	}
}
