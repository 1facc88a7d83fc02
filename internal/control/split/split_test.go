// SPDX-License-Identifier: Apache-2.0

package split

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const table = 600

// TestOrders checks any sequence of splits that are completed or canceled at any time. The partitions of a table must
// cover the ring after every step (SP1). No span changes twice within Cooldown unless the request skips the cooldown
// (SP2). The number of splits in progress must not exceed MaxConcurrent (SP3). Every ID must be new.
func TestOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := topology.New().WithLevel(MinFeatureLevel).AddTable(table, rapid.IntRange(1, 12).Draw(t, "partitions"),
			[]topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}})
		if err != nil {
			t.Fatal(err)
		}
		s, now := meta.Empty().WithTopology(m), time.UnixMilli(1e12)
		changed := map[topology.PartitionID]time.Time{}
		ids := map[topology.PartitionID]bool{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			ps := s.Topology.Partitions(table)
			p := ps[rapid.IntRange(0, len(ps)-1).Draw(t, "partition")]
			if p.Split != nil && rapid.IntRange(0, 3).Draw(t, "recall") == 0 {
				next, err := s.Topology.CancelSplit(p.ID)
				if err == nil && p.Split.Canceled {
					next, err = s.Topology.EndSplitCancel(p.ID, now)
					changed[p.ID], ids[p.Split.Child] = now, true
				}
				if err != nil {
					t.Fatal(err)
				}
				s = s.WithTopology(next)
			} else if p.Split != nil && rapid.Bool().Draw(t, "end") {
				next, err := s.Topology.EndSplit(p.ID, now)
				if err != nil {
					t.Fatal(err)
				}
				if ids[p.Split.Child] {
					t.Fatalf("partition %d was there before", p.Split.Child)
				}
				changed[p.ID], changed[p.Split.Child], ids[p.Split.Child] = now, now, true
				s = s.WithTopology(next)
			} else {
				o := Request{Table: table, Partition: p.ID, SkipCooldown: rapid.IntRange(0, 9).Draw(t, "hurry") == 0,
					At:    topology.Position{Ring: rapid.Uint64().Draw(t, "at")},
					Cause: topology.Cause(rapid.IntRange(0, 3).Draw(t, "cause"))}
				if next, err := o.Apply(s, now); err == nil {
					if last, ok := changed[p.ID]; ok && !o.SkipCooldown && now.Sub(last) < Cooldown {
						t.Fatalf("partition %d is split %v after it had changed", p.ID, now.Sub(last))
					}
					if r := next.Topology.Partition(p.ID).Reason; r.Cause != o.Cause || r.Began != now.UnixMilli() {
						t.Fatalf("ordered by %v at %v: %+v", o.Cause, now, r)
					}
					s = next
				}
			}
			if err := s.Topology.Validate(); err != nil {
				t.Fatal(err)
			}
			again, err := topology.Decode(s.Topology.Append(nil))
			if err != nil || string(again.Append(nil)) != string(s.Topology.Append(nil)) {
				t.Fatalf("the decoded topology differs: %v", err)
			}
			for p := range s.Topology.All() {
				was := again.Partition(p.ID).Reason
				if p.Split != nil && *was != *p.Reason {
					t.Fatalf("%+v comes back as %+v", p.Reason, was)
				}
			}
			if n := inProgress(s.Topology); n > MaxConcurrent {
				t.Fatalf("%d splits are in progress", n)
			}
		}
	})
}

// TestRefusedOrders checks that requests for impossible splits return an error, and that a partition keeps its members
// while it is being split.
func TestRefusedOrders(t *testing.T) {
	now := time.UnixMilli(1e12)
	node := []topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}}}}
	m, err := topology.New().AddTable(table, 2, node)
	if err != nil {
		t.Fatal(err)
	}
	at := topology.Position{Ring: 1 << 62}
	try := func(m *topology.Snapshot, o Request) (*topology.Snapshot, error) {
		s, err := o.Apply(meta.Empty().WithTopology(m), now)
		if err != nil {
			return nil, err
		}
		return s.Topology, nil
	}
	moving, _, err := m.WithLevel(MinFeatureLevel).AddMember(1, "r", topology.NodeID{2}, topology.Joining)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		m *topology.Snapshot
		o Request
	}{
		"an old feature level": {m, Request{Table: table, Partition: 1, At: at}},
		"another table":        {m.WithLevel(MinFeatureLevel), Request{Table: table + 1, Partition: 1, At: at}},
		"no partition":         {m.WithLevel(MinFeatureLevel), Request{Table: table, Partition: 7, At: at}},
		"another's tokens":     {m.WithLevel(MinFeatureLevel), Request{Table: table, Partition: 2, At: at}},
		"its beginning":        {m.WithLevel(MinFeatureLevel), Request{Table: table, Partition: 1}},
		"members on their way": {moving, Request{Table: table, Partition: 1, At: at}},
	} {
		if _, err := try(c.m, c.o); err == nil {
			t.Errorf("%s: it was ordered", name)
		}
	}
	o := Request{Table: table, Partition: 1, At: at, Level: MinFeatureLevel} // a standalone node
	cut, err := try(m, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := try(cut, o); err == nil {
		t.Error("it was ordered twice")
	}
	if _, _, err := cut.AddMember(1, "r", topology.NodeID{2}, topology.Joining); err == nil {
		t.Error("a member was added while it splits")
	}
	if same, err := cut.RecordVoters(1, "r", nil); err != nil || same != cut {
		t.Errorf("members were recorded while it splits: %v", err)
	}
	done, err := cut.EndSplit(1, now)
	if err != nil {
		t.Fatal(err)
	}
	o.At.Ring >>= 1
	if _, err := try(done, o); err == nil {
		t.Error("it was split twice without a cooldown")
	}
	o.SkipCooldown = true
	if _, err := try(done, o); err != nil {
		t.Error(err)
	}
}
