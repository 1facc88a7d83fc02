// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// TestHistory checks that events are numbered in order and that loading the records restores them. Both the state and
// the records keep at most EventsKept events.
func TestHistory(t *testing.T) {
	s := Empty()
	first := Event{Kind: Move, Table: 600, Partition: 7, From: topology.NodeID{1}, To: topology.NodeID{2},
		Reason: topology.Reason{Cause: topology.ToBalance, Began: 1e12}, Abandoned: true, Ended: 1e12 + 5,
		Bytes: 1 << 40,
		Pause: 7 * time.Microsecond}
	for i := range EventsKept + 3 {
		e := first
		e.Partition += topology.PartitionID(i)
		next := s.WithEvent(e)
		if i == 1 {
			next = next.WithEvent(e) // two events in one change
		}
		put, err := s.Diff(next)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = s.applyChange(uint64(i+1), put); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(next.History, s.History, func(a, b *Event) bool { return *a == *b }) {
			t.Fatalf("after event %d:\n%s", i, cmp.Diff(next.History, s.History))
		}
	}
	if n := len(s.History); n != EventsKept || len(s.records) != EventsKept {
		t.Errorf("%d events, %d records", n, len(s.records))
	}
	if a, b := s.History[0], s.History[EventsKept-1]; a.Number != 5 || b.Number != EventsKept+4 {
		t.Errorf("from %d to %d", a.Number, b.Number)
	}
	again, err := Load(func(fn func(key, value []byte) error) (uint64, error) {
		for key, value := range s.records {
			if err := fn([]byte(key), value); err != nil {
				return 0, err
			}
		}
		return s.Version, nil
	})
	if diff := cmp.Diff(s.History, again.History); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
