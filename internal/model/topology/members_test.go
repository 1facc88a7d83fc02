// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestMemberLife checks the valid and the invalid transitions between the states of a member.
func TestMemberLife(t *testing.T) {
	s, err := New().AddTable(table, 2, places)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.AddMeta(places); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddMeta(places); err == nil {
		t.Error("a second meta partition was added")
	}
	for _, id := range []PartitionID{2, MetaPartition} {
		before := s.Append(nil)
		voters := []ReplicaID{}
		for _, r := range s.Partition(id).Sets[0].Replicas {
			voters = append(voters, r.ID)
		}
		joining, replica, err := s.AddMember(id, "here", NodeID{4}, Joining)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := joining.AddMember(id, "here", NodeID{4}, Learner); err == nil {
			t.Error("a node got two replicas")
		}
		if _, _, err := s.AddMember(id, "here", NodeID{4}, Voter); err == nil {
			t.Error("a replica was immediately a voter")
		}
		if _, _, err := s.AddMember(id, "nowhere", NodeID{4}, Joining); err == nil {
			t.Error("a replica in a region without a set")
		}
		if same, err := joining.RecordVoters(id, "here", voters); err != nil || same != joining {
			t.Errorf("it does not vote and was recorded: %v", err)
		}
		recorded, err := joining.RecordVoters(id, "here", append(voters, replica))
		if err != nil || recorded.Partition(id).Set("here").Member(replica).State != Voter {
			t.Fatalf("it votes and was not recorded: %v", err)
		}
		if _, err := recorded.Mark(id, replica, Joining); err == nil {
			t.Error("a voter is joining")
		}
		leaving, err := recorded.Mark(id, voters[0], Leaving)
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := leaving.RecordVoters(id, "here", append(voters, replica)); err != nil || kept != leaving {
			t.Errorf("a leaving replica that votes was removed: %v", err)
		}
		gone, err := leaving.RecordVoters(id, "here", append(voters[1:], replica))
		if err != nil || gone.Partition(id).Set("here").Member(voters[0]) != nil ||
			gone.Partition(id).Set("here").Leader == voters[0] {
			t.Errorf("a leaving replica that no longer votes exists: %v", err)
		}
		if _, err := gone.Mark(id, voters[0], Leaving); err == nil {
			t.Error("a replica that is gone is leaving")
		}
		if _, next, err := gone.AddMember(id, "here", NodeID{1}, Joining); err != nil || next <= replica {
			t.Errorf("replica %d after %d: %v", next, replica, err)
		}
		if !bytes.Equal(before, s.Append(nil)) {
			t.Fatal("a transition changed the snapshot it began with")
		}
		s = gone
	}
}

// TestCutTable checks that pieces must tile the ring. Each piece must name each node at most once.
func TestCutTable(t *testing.T) {
	at := func(ring uint64) Position { return Position{Ring: ring} }
	for _, bad := range [][]Piece{
		nil, {{Begin: at(1)}}, {{}, {Begin: at(5)}, {Begin: at(5)}}, {{}, {Begin: at(9)}, {Begin: at(5)}},
		{{Places: []Place{{Region: "here", Nodes: []NodeID{{1}, {1}}}}}},
		{{Places: []Place{{Region: "here", Nodes: []NodeID{{1}}}, {Region: "here", Nodes: []NodeID{{2}}}}}},
		{{Places: []Place{{Region: "here", Nodes: []NodeID{{1}}}, {Region: "there", Nodes: []NodeID{{1}}}}}},
	} {
		if _, err := New().CutTable(table, bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	s, err := New().CutTable(table,
		[]Piece{{Places: places}, {Begin: at(7), Places: []Place{{Region: "here", Nodes: []NodeID{{9}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	ps := s.Partitions(table)
	if len(ps) != 2 || ps[0].Span.Limit.Ring != 7 || ps[1].Span.Begin.Ring != 7 ||
		ps[1].Sets[0].Replicas[0].Node != (NodeID{9}) {
		t.Errorf("%+v", ps)
	}
	if _, err := s.CutTable(MetaTable, Equal(1, places)); err == nil {
		t.Error("the meta partition's number was given to a table")
	}
}

// TestAssemble checks that applying records one by one results in the same topology as decoding the whole topology.
// The test also checks that unchanged parts are shared, and that inconsistent records are rejected.
func TestAssemble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, follower := New(), New()
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			before := s
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				number := uint32(rapid.IntRange(1024, 1027).Draw(t, "table"))
				ps := s.Partitions(number)
				var p *Partition
				if ps != nil {
					p = rapid.SampledFrom(ps).Draw(t, "partition")
				}
				switch kind := rapid.IntRange(0, 8).Draw(t, "change"); {
				case ps == nil:
					s, err = s.AddTable(number, rapid.IntRange(1, 4).Draw(t, "n"), places)
					must(err)
				case kind == 0:
					s = s.DropTable(number)
				case kind >= 4:
					next, err := s, error(nil)
					switch kind {
					case 4:
						at := Position{Ring: rapid.Uint64().Draw(t, "at")}
						next, err = s.BeginSplit(p.ID, at, UnknownCause, time.UnixMilli(1))
					case 5:
						switch rapid.IntRange(0, 2).Draw(t, "end") {
						case 0:
							next, err = s.EndSplit(p.ID, time.UnixMilli(1))
						case 1:
							next, err = s.CancelSplit(p.ID)
						default:
							next, err = s.EndSplitCancel(p.ID, time.UnixMilli(1))
						}
					case 6:
						switch left := ps[max(len(ps)-2, 0)]; {
						case left.Merge != nil:
							next, err = s.CancelMerge(left.ID)
						case rapid.Bool().Draw(t, "ordered"):
							next, err = s.BeginMerge(left.ID, ps[len(ps)-1].ID, ByOperator, time.UnixMilli(1))
						default:
							next, err = merged(s, left.ID, ps[len(ps)-1].ID)
						}
					case 7:
						next, err = s.WithPin(p.ID, &PlacementPin{Nodes: []NodeID{{1}}, Until: 7,
							MergeWith: PartitionID(rapid.IntRange(0, 1).Draw(t, "with")) * ps[0].ID, Cause: BySize})
					case 8:
						next, err = s.WithLead(p.ID, NodeID{byte(rapid.IntRange(0, 4).Draw(t, "leader"))})
					}
					if err == nil {
						s = next
					}
				case kind == 1 && s.Meta() == nil:
					s, err = s.AddMeta(places)
					must(err)
				case kind == 2:
					if next, _, err := s.AddMember(ps[0].ID, "here", NodeID{byte(rapid.IntRange(4, 9).Draw(t, "node"))},
						Learner); err == nil {
						s = next
					}
				default:
					r := ps[0].Sets[0].Replicas[0]
					if next, err := s.Mark(ps[0].ID, r.ID, Leaving); err == nil {
						s = next
					}
				}
			}
			changes := map[PartitionID][]byte{}
			for was, is := range s.Changes(before) {
				if is != nil {
					changes[is.ID] = AppendPartition(nil, is)
				} else {
					changes[was.ID] = nil
				}
			}
			old := follower
			follower, err = Assemble(follower, s.AppendHeader(nil), changes)
			must(err)
			must(follower.Validate())
			whole, err := Decode(s.Append(nil))
			must(err)
			if !bytes.Equal(follower.Append(nil), s.Append(nil)) || !bytes.Equal(whole.Append(nil), s.Append(nil)) {
				t.Fatal("the follower has another topology")
			}
			for p := range s.All() {
				if _, changed := changes[p.ID]; !changed && old.Partition(p.ID) != follower.Partition(p.ID) {
					t.Fatalf("partition %d was decoded again", p.ID)
				}
			}
			moving := slices.Collect(follower.InMotion())
			for p := range follower.All() {
				if slices.Contains(moving, p) != (p.Split != nil || p.Merge != nil || p.Pin != nil || !p.AtRest()) {
					t.Fatalf("partition %d is in motion: %t", p.ID, slices.Contains(moving, p))
				}
			}
		}
		for _, number := range s.Tables() {
			ps := s.Partitions(number)
			p := rapid.SampledFrom(ps).Draw(t, "partition")
			record := AppendPartition(nil, p)
			refused := func(why string, base, header *Snapshot, records map[PartitionID][]byte) {
				if _, err := Assemble(base, header.AppendHeader(nil), records); err == nil {
					t.Fatalf("%s was accepted", why)
				}
			}
			refused("a partition under two ids", s, s, map[PartitionID][]byte{s.NextPartition() - 1 + p.ID: record})
			refused("an id that was not given", New(), New(), map[PartitionID][]byte{p.ID: record})
			refused("a record that was cut off", New(), s, map[PartitionID][]byte{p.ID: record[:len(record)-1]})
			if len(ps) > 1 {
				refused("a gap", s, s, map[PartitionID][]byte{p.ID: nil})
				refused("a piece of a table", New(), s, map[PartitionID][]byte{p.ID: record})
			}
		}
		if all := slices.Collect(s.All()); len(all) != s.Len()+
			len(slices.DeleteFunc([]*Partition{s.Meta()}, func(p *Partition) bool {
				return p == nil
			})) {
			t.Fatalf("%d partitions of %d", len(all), s.Len())
		}
	})
}
