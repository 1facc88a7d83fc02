// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// held is a replica on a node.
type held struct {
	replica topology.ReplicaID
	table   uint32
	span    topology.Span
	// epoch is the epoch of the partition at the applied index. frozen reports whether the replica serves no requests.
	epoch  uint64
	frozen bool
}

// room is the set of replicas on a node.
type room struct {
	here map[topology.PartitionID]held
	did  []string
}

func (r *room) note(format string, args ...any) { r.did = append(r.did, fmt.Sprintf(format, args...)) }

func (r *room) Has(id topology.PartitionID) bool                  { _, ok := r.here[id]; return ok }
func (r *room) Member(id topology.PartitionID) topology.ReplicaID { return r.here[id].replica }
func (r *room) IDs() []topology.PartitionID                       { return slices.Sorted(maps.Keys(r.here)) }
func (r *room) TableOf(id topology.PartitionID) uint32            { return r.here[id].table }
func (r *room) Absorber(id topology.PartitionID) (topology.PartitionID, uint64) {
	own := r.here[id]
	for left, h := range r.here {
		if own.frozen && h.table == own.table && h.span.Limit.Compare(own.span.Begin) == 0 {
			return left, h.epoch
		}
	}
	return 0, 0
}
func (r *room) Holds(table uint32, span topology.Span) bool {
	for _, h := range r.here {
		if h.table == table && h.span.Overlaps(span) {
			return true
		}
	}
	return false
}

func (r *room) Create(ps ...*topology.Partition) error {
	for _, p := range ps {
		r.note("create %d", p.ID)
		r.here[p.ID] = held{replica: p.Sets[0].Replicas[0].ID, table: p.Table, span: p.Span}
	}
	return nil
}

func (r *room) Join(id topology.PartitionID, replica topology.ReplicaID) error {
	r.note("join %d", id)
	r.here[id] = held{replica: replica}
	return nil
}

func (r *room) Drop(ids ...topology.PartitionID) error {
	for _, id := range ids {
		r.note("drop %d", id)
		delete(r.here, id)
	}
	return nil
}

// said returns the operations since the last call.
func (r *room) said() string {
	s := strings.Join(r.did, ", ")
	r.did = nil
	return s
}

const ordered = 600

// splitMaps returns three topologies of a table with one partition on a node: the table after its creation, with a
// requested split, and after the split.
func splitMaps(t *testing.T, node topology.NodeID) (whole, cut, halves *topology.Snapshot) {
	t.Helper()
	whole, err := topology.New().AddTable(ordered, 1, []topology.Place{{Nodes: []topology.NodeID{node}}})
	if err == nil {
		cut, err = whole.BeginSplit(1, topology.Position{Ring: 1 << 63}, topology.ByOperator, time.UnixMilli(1e12))
	}
	if err == nil {
		halves, err = cut.EndSplit(1, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	return whole, cut, halves
}

// TestChildIsNotBorn checks that the topology never creates the child of a split with data (RC4). The child waits while
// its parent on this node has not split yet. If a snapshot has replaced the split in the parent's log, the child is
// created empty and receives a snapshot.
func TestChildIsNotBorn(t *testing.T) {
	self := topology.NodeID{1}
	whole, cut, halves := splitMaps(t, self)
	r := &room{here: map[topology.PartitionID]held{}}
	l := &LocalReconciler{Node: self, Host: r}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what, want string) {
		t.Helper()
		if got := r.said(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	must(l.Create(topology.New(), whole))
	expect("a new table", "create 1")
	must(l.Create(whole, cut))
	must(l.Create(cut, halves))
	must(l.CheckPending())
	expect("the log of the parent lags", "")
	narrow := r.here[1]
	narrow.span = halves.Partition(1).Span
	r.here[1] = narrow // the node received a snapshot of the parent
	must(l.CheckPending())
	must(l.CheckPending())
	expect("the split was passed over", "join 2")

	r.here = map[topology.PartitionID]held{}
	must(l.Create(topology.New(), halves))
	expect("a node that has neither half", "join 1, join 2")
}

// TestChildOutlivesItsRecords checks that a replica created by a split is not considered a remnant of a crash if the
// local records do not contain it yet. It is removed with its table, or if its node is not a member.
func TestChildOutlivesItsRecords(t *testing.T) {
	self := topology.NodeID{1}
	whole, cut, halves := splitMaps(t, self)
	child := held{replica: 2, table: ordered, span: halves.Partition(2).Span}
	parent := held{replica: 1, table: ordered, span: halves.Partition(1).Span}
	for name, c := range map[string]struct {
		m    *topology.Snapshot
		want string
	}{
		"records before the order":   {whole, ""},
		"records with the order":     {cut, ""},
		"records with the split":     {halves, ""},
		"the table was dropped":      {cut.DropTable(ordered), "drop 1, drop 2"},
		"the child is there no more": {whole.DropTable(ordered), "drop 1, drop 2"},
	} {
		r := &room{here: map[topology.PartitionID]held{1: parent, 2: child}}
		l := &LocalReconciler{Node: self, Host: r}
		if err := l.RemoveOrphans(c.m, r.IDs()); err != nil || r.said() != c.want {
			t.Errorf("%s: %v, %v are left", name, err, r.IDs())
		}
	}
	for name, from := range map[string]*topology.Snapshot{"before the order": whole, "after it": cut} {
		r := &room{here: map[topology.PartitionID]held{1: parent, 2: child}}
		l := &LocalReconciler{Node: self, Host: r}
		if err := l.Remove(from, from.DropTable(ordered)); err != nil || len(r.here) > 0 {
			t.Errorf("dropped %s: %v, %v are left", name, err, r.IDs())
		}
	}
	// The parent's log created the child when the node was no longer a member.
	r := &room{here: map[topology.PartitionID]held{2: child}}
	l := &LocalReconciler{Node: topology.NodeID{9}, Host: r}
	if err := l.Create(topology.New(), halves); err != nil || l.CheckPending() != nil || r.said() != "drop 2" {
		t.Errorf("%v, %v are left", err, r.IDs())
	}
}

// TestSplitIsTakenBackOrMade checks that a canceled split ends in one of two ways, depending on the first entry in the
// partition's log. This applies regardless of the proposer and of the leader's knowledge of the request. The topology
// matches the log and tiles the ring.
func TestSplitIsTakenBackOrMade(t *testing.T) {
	whole, cut, _ := splitMaps(t, topology.NodeID{1})
	for _, c := range []struct {
		name string
		// stale makes the leader use the request that existed before the cancellation.
		stale bool
		// before and amid apply entries of another leader: before runs before the step, and amid runs during the step.
		before, amid func(d *divided) error
		split        bool
	}{
		{name: "nothing is in the log"},
		{name: "the leader does not know", stale: true, split: true},
		{name: "the split is in the log", before: splits, split: true},
		{name: "the split is in the log, and the leader does not know", stale: true, before: splits, split: true},
		{name: "it is out of the log", before: thaws},
		{name: "it is out of the log, and the leader does not know", stale: true, before: thaws},
		{name: "the split overtakes", amid: splits, split: true},
		{name: "the split is overtaken", stale: true, amid: thaws},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keeperOf(t, cut)
			recalled, err := cut.CancelSplit(1)
			if err != nil {
				t.Fatal(err)
			}
			want(t, k, recalled)
			r, p := dividedOf(whole.Partition(1)), recalled.Partition(1)
			if c.stale {
				p = cut.Partition(1)
			}
			if c.before != nil {
				if err := c.before(r); err != nil {
					t.Fatal(err)
				}
			}
			if c.amid != nil {
				r.before = func() { _ = c.amid(r) }
			}
			var log strings.Builder
			s := SplitReconciler{Keeper: k, Log: slog.New(slog.NewTextHandler(&log, nil))}
			for range 3 { // failed steps are repeated, and completed steps are skipped
				_ = s.Run(t.Context(), r, p)
			}
			m := k.State().Topology
			now, child := m.Partition(1), m.Partition(2)
			if err := m.Validate(); err != nil || now.Split != nil || now.Epoch != 2 || (child != nil) != c.split ||
				now.Span.Limit.Compare(r.span.Limit) != 0 || now.Since == 0 {
				t.Errorf("%+v, child %v, the replica holds %s: %v", now, child, r.span, err)
			}
			if h := k.State().History; len(h) != 1 || strings.Count(log.String(), "\n") != 1 ||
				h[0].Abandoned == c.split || strings.Contains(log.String(), "split canceled") == c.split {
				t.Errorf("history %v, log %s", h, log.String())
			}
			if m, err = m.BeginSplit(1, topology.Position{Ring: 1 << 60}, topology.ByOperator, time.Now()); err != nil {
				t.Fatal(err)
			}
			if next := m.Partition(1).Split; next.Child <= cut.Partition(1).Split.Child || next.Canceled {
				t.Errorf("the next split: %+v", next)
			}
		})
	}
}

func splits(d *divided) error {
	return d.Split(context.Background(), 1, &command.Split{At: binary.BigEndian.AppendUint64(nil, 1<<63)})
}

func thaws(d *divided) error { return d.Unfreeze(context.Background(), 1) }

// measured is the store of a partition that must be measured in an epoch.
type measured struct {
	t     *testing.T
	r     *divided
	epoch uint64
}

func (m measured) DiskBytes(keys.Span) (uint64, error) {
	if _, epoch := m.r.Span(); epoch != m.epoch {
		m.t.Error("it is measured while requests wait")
	}
	return 7, nil
}

// TestSplitIsMeasuredBefore checks that the size of a partition is measured before the right half waits for the
// topology. Measuring the size may take a while.
func TestSplitIsMeasuredBefore(t *testing.T) {
	whole, cut, _ := splitMaps(t, topology.NodeID{1})
	k, r, p := keeperOf(t, cut), dividedOf(whole.Partition(1)), cut.Partition(1)
	s := SplitReconciler{Keeper: k, Store: measured{t, r, p.Epoch}, Log: slog.New(slog.DiscardHandler)}
	if err := s.Run(t.Context(), r, p); err != nil {
		t.Fatal(err)
	}
	if h := k.State().History; len(h) != 1 || h[0].Bytes != 7 {
		t.Errorf("history %v", h)
	}
}
