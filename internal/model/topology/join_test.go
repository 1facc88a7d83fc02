// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"testing"
	"time"
)

// merged requests a merge and completes it.
func merged(s *Snapshot, left, right PartitionID) (*Snapshot, error) {
	next, err := s.BeginMerge(left, right, ByOperator, time.UnixMilli(1))
	if err != nil {
		return nil, err
	}
	if next, err = allReady(next, right, 17); err != nil {
		return nil, err
	}
	return next.EndMerge(left, time.UnixMilli(1))
}

// allReady records that all replicas of a partition are frozen at a log index.
func allReady(s *Snapshot, right PartitionID, frozen uint64) (*Snapshot, error) {
	ids := []ReplicaID{0}
	if p := s.Partition(right); len(p.Sets) > 0 {
		ids = nil
		for _, m := range p.Sets[0].Replicas {
			ids = append(ids, m.ID)
		}
	}
	var err error
	for _, id := range ids {
		if s, err = s.MergeReady(right, id, frozen, time.UnixMilli(9)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// TestJoin checks that a requested merge is either completed or canceled. Until then, the members and spans of both
// partitions must not change. The test also checks that the merge survives its encoding, and that the right
// partition's ID is not reused.
func TestJoin(t *testing.T) {
	now := time.UnixMilli(77)
	places := []Place{{Region: "r", Nodes: []NodeID{{1}, {2}, {3}}}}
	s, err := New().WithLevel(2).AddTable(600, 3, places)
	if err != nil {
		t.Fatal(err)
	}
	open, err := s.BeginMerge(1, 2, ByOperator, now)
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func(*Snapshot) (*Snapshot, error){
		"merged again": func(s *Snapshot) (*Snapshot, error) { return s.BeginMerge(2, 3, ByOperator, now) },
		"split": func(s *Snapshot) (*Snapshot, error) {
			return s.BeginSplit(2, Position{Ring: 3 << 61}, ByOperator, now)
		},
		"given a member": func(s *Snapshot) (*Snapshot, error) {
			s, _, err := s.AddMember(1, "r", NodeID{4}, Joining)
			return s, err
		},
		"merged before time": func(s *Snapshot) (*Snapshot, error) { return s.EndMerge(1, now) },
		"thawed for nothing": func(s *Snapshot) (*Snapshot, error) { return s.EndMergeCancel(1, now) },
	} {
		if _, err := f(open); err == nil {
			t.Errorf("a partition that is being merged was %s", what)
		}
	}
	if same, err := open.RecordVoters(2, "r", nil); err != nil || same != open {
		t.Errorf("members were recorded in the meantime: %v", err)
	}
	half, err := open.MergeReady(2, 4, 17, now)
	if err != nil || half.Partition(1).Merge.Stage != Freezing {
		t.Fatal(half, err)
	}
	if _, err := half.MergeReady(2, 5, 18, now); err == nil {
		t.Error("the right partition was frozen at two indexes")
	}
	full, err := allReady(half, 2, 17)
	if err != nil || full.Partition(2).Merge.Stage != Merging {
		t.Fatal(full, err)
	}
	if same, err := full.CancelMerge(2); err != nil || same != full {
		t.Errorf("a merge that may have happened was canceled: %v", err)
	}
	back, err := half.CancelMerge(1)
	if err != nil {
		t.Fatal(err)
	}
	if late, err := allReady(back, 2, 17); err != nil || late.Partition(1).Merge.Stage != Unfreezing {
		t.Errorf("a canceled merge continues: %v", err)
	}
	for _, s := range []*Snapshot{open, half, full, back} {
		again, err := Decode(s.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), s.Append(nil)) {
			t.Errorf("the topology changed in encoding: %v", err)
		}
	}
	thawed, err := back.EndMergeCancel(2, now)
	if err != nil {
		t.Fatal(err)
	}
	l, r := thawed.Partition(1), thawed.Partition(2)
	if l.Merge != nil || r.Merge != nil || l.Epoch != 1 || r.Epoch != 2 {
		t.Errorf("%+v %+v", l, r)
	}
	done, err := full.EndMerge(1, now)
	if err != nil {
		t.Fatal(err)
	}
	if p := done.Partition(1); done.Partition(2) != nil || p.Merge != nil || p.Epoch != 2 || p.Since != 77 ||
		p.Span.Limit.Compare(s.Partition(2).Span.Limit) != 0 {
		t.Errorf("%+v", p)
	}
	if err := done.Validate(); err != nil || done.NextPartition() != s.NextPartition() {
		t.Error(err)
	}
	if dropped := open.DropTable(600); dropped.Partition(1) != nil || dropped.Validate() != nil {
		t.Error("DROP TABLE leaves something of a merge")
	}
}

// TestJoinRefused checks that partitions cannot be merged if they are not neighbors, are changing, or are on different
// nodes.
func TestJoinRefused(t *testing.T) {
	now := time.UnixMilli(77)
	s, err := New().WithLevel(2).CutTable(600, []Piece{
		{Position{}, []Place{{Region: "r", Nodes: []NodeID{{1}, {2}, {3}}}}},
		{Position{Ring: 1 << 62}, []Place{{Region: "r", Nodes: []NodeID{{3}, {2}, {1}}}}},
		{Position{Ring: 1 << 63}, []Place{{Region: "r", Nodes: []NodeID{{1}, {2}, {4}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	moving, _, err := s.AddMember(1, "r", NodeID{4}, Joining)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := s.BeginSplit(2, Position{Ring: 3 << 61}, ByOperator, now)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		s           *Snapshot
		left, right PartitionID
	}{
		"the wrong way round": {s, 2, 1}, "no neighbours": {s, 1, 3}, "with itself": {s, 1, 1}, "the last": {s, 3, 1},
		"unknown": {s, 1, 9}, "other nodes": {s, 2, 3}, "moving": {moving, 1, 2}, "split": {cut, 1, 2},
	} {
		if _, err := c.s.BeginMerge(c.left, c.right, ByOperator, now); err == nil {
			t.Errorf("%s: merged", what)
		}
	}
	if _, err := s.BeginMerge(1, 2, ByOperator, now); err != nil {
		t.Error(err)
	}
}
