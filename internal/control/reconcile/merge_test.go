// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// mergeMaps returns three topologies of a table with two partitions on a node: the table after its creation, with a
// merge that is about to be applied, and after the merge.
func mergeMaps(t *testing.T, node topology.NodeID) (halves, joining, whole *topology.Snapshot) {
	t.Helper()
	now := time.UnixMilli(1e12)
	halves, err := topology.New().AddTable(ordered, 2, []topology.Place{{Nodes: []topology.NodeID{node}}})
	if err == nil {
		joining, err = halves.BeginMerge(1, 2, topology.ByOperator, now)
	}
	if err == nil {
		joining, err = joining.MergeReady(2, 2, 40, now)
	}
	if err == nil {
		whole, err = joining.EndMerge(1, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return halves, joining, whole
}

// TestFrozenReplicaStays checks a replica that was frozen for a merge and that the topology does not contain. The
// replica must stay until the log of the absorbing replica on this node has reached the merge. This applies to a
// topology change, to a start, and to later checks.
//
// The replica is removed if the absorbing replica has passed the merge without it or is not on this node, or if the
// table is dropped.
func TestFrozenReplicaStays(t *testing.T) {
	self := topology.NodeID{1}
	halves, joining, whole := mergeMaps(t, self)
	left := held{replica: 1, table: ordered, span: halves.Partition(1).Span, epoch: 1}
	right := held{replica: 2, table: ordered, span: halves.Partition(2).Span, epoch: 1, frozen: true}
	passed, thawed := left, right
	passed.epoch, thawed.frozen = 2, false
	for name, c := range map[string]struct {
		here map[topology.PartitionID]held
		m    *topology.Snapshot
		want string
	}{
		"the log lags behind the map":       {map[topology.PartitionID]held{1: left, 2: right}, whole, ""},
		"the left one is elsewhere":         {map[topology.PartitionID]held{2: right}, whole, "drop 2"},
		"the left one has passed the merge": {map[topology.PartitionID]held{1: passed, 2: right}, whole, "drop 2"},
		"it was no part of the merge":       {map[topology.PartitionID]held{1: left, 2: thawed}, whole, "drop 2"},
	} {
		for when, do := range map[string]func(*LocalReconciler) error{
			"at the change": func(l *LocalReconciler) error { return l.Remove(joining, c.m) },
			"at a start":    func(l *LocalReconciler) error { return l.RemoveOrphans(c.m, l.Host.IDs()) },
			"later":         func(l *LocalReconciler) error { l.current = c.m; return l.CheckPending() },
		} {
			r := &room{here: map[topology.PartitionID]held{}}
			for id, h := range c.here {
				r.here[id] = h
			}
			if err := do(&LocalReconciler{Node: self, Host: r}); err != nil || r.said() != c.want {
				t.Errorf("%s, %s: %v, %v are left", name, when, err, r.IDs())
			}
		}
	}
	r := &room{here: map[topology.PartitionID]held{1: left, 2: right}}
	if err := (&LocalReconciler{Node: self, Host: r}).Remove(whole, whole.DropTable(ordered)); err != nil ||
		len(r.here) > 0 {
		t.Errorf("dropped: %v, %v are left", err, r.IDs())
	}
}

// TestMergedIsNotBornAgain checks that metadata that is older than the log of a merge does not recreate the right
// partition (RC4), even when the metadata no longer contains it.
func TestMergedIsNotBornAgain(t *testing.T) {
	self := topology.NodeID{1}
	halves, joining, whole := mergeMaps(t, self)
	merged := held{replica: 1, table: ordered, span: whole.Partition(1).Span, epoch: 2}
	r := &room{here: map[topology.PartitionID]held{1: merged}}
	l := &LocalReconciler{Node: self, Host: r}
	for _, m := range []*topology.Snapshot{halves, joining, whole} {
		if err := l.Create(topology.New(), m); err != nil || l.CheckPending() != nil || r.said() != "" {
			t.Errorf("%v, %v are here", err, r.IDs())
		}
	}
}

// TestMergeIsTakenBackByNewLeaders checks that a merge is canceled if its right partition never becomes ready, even if
// no leader stays long enough to wait for it.
func TestMergeIsTakenBackByNewLeaders(t *testing.T) {
	const term = readyTimeout - time.Second
	for terms := range 10 {
		for waited := time.Duration(0); waited < term; waited += 100 * time.Millisecond {
			if shouldCancel(false, waited, time.Duration(terms)*term+waited) {
				return
			}
		}
	}
	t.Fatal("the merge is never canceled")
}

// TestFoundFrozen checks that a leader that finds a partition frozen by its predecessor cancels the merge sooner than
// a leader that has frozen it. Requests have already waited for the election.
func TestFoundFrozen(t *testing.T) {
	var m MembershipReconciler
	if own, found := m.waited(1, 1, true, 0), m.waited(2, 1, true, inheritedWait); shouldCancel(true,
		own+freezeTimeout-inheritedWait, 0) ||
		!shouldCancel(true, found+freezeTimeout-inheritedWait+time.Millisecond, 0) {
		t.Errorf("it has waited for %v, and for %v where it was frozen before", own, found)
	}
}

// TestMergesComeFirst checks that merging partitions are examined between the rounds over all partitions. They are
// queued before other partitions and get additional workers if the other workers are busy.
func TestMergesComeFirst(t *testing.T) {
	_, joining, _ := mergeMaps(t, topology.NodeID{1})
	records, err := joining.AddTable(ordered+1, 12, []topology.Place{{Nodes: []topology.NodeID{{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	m := MembershipReconciler{Keeper: keeperOf(t, records), workers: concurrentSteps}
	for p := range records.All() {
		if p.Table != ordered {
			m.Enqueue(p.ID)
		}
	}
	if workers, press := m.round(true); workers != 0 || press {
		t.Fatalf("%d workers are added to the busy workers, urgent: %t", workers, press)
	}
	m.Enqueue(2, 1)
	if workers, press := m.round(false); workers != 2 || !press {
		t.Fatalf("%d workers for two merging partitions, urgent: %t", workers, press)
	}
	for _, want := range []topology.PartitionID{1, 2} {
		if id, ok := m.next(); id != want || !ok {
			t.Errorf("%d is taken from the queue instead of %d", id, want)
		}
	}
	if id, ok := m.next(); ok {
		t.Errorf("an extra worker takes %d", id)
	}
	if _, press := m.round(false); !press {
		t.Error("the next look is not soon while a merge is being looked at")
	}
}
