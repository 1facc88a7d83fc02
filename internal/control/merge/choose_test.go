// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// modelTable is a table with its bytes and load spread over the ring in eighths. Its partitions split and merge
// automatically.
type modelTable struct {
	t           *rapid.T
	s           *meta.State
	now         time.Time
	rules       Rules
	bytes, load [8]float64
	rng         *rand.Rand // nil means that leaders measure without errors
	calm        map[topology.PartitionID]*IdleTracker
	epochs      map[topology.PartitionID]uint64
	heat        map[topology.PartitionID]*split.HotTimer
	merged      map[topology.PartitionID]bool // time since the table last changed
	changes     int
}

const mostBytes = 1000

const limit = 1000.0

// limitOf is the size limit of every table.
type limitOf uint64

func (l limitOf) MergeSizeLimit(uint32) uint64 { return uint64(l) }

// without is a cluster in which one node is dead.
type without topology.NodeID

func (w without) Alive(n topology.NodeID) bool { return n != topology.NodeID(w) }

// of returns the integral of a density over a span.
func of(density [8]float64, span topology.Span) (n float64) {
	begin, end := float64(span.Begin.Ring), float64(span.Limit.Ring)
	if span.Limit.IsZero() {
		end = math.Exp2(64)
	}
	for i, d := range density {
		lo, hi := float64(i)*math.Exp2(61), float64(i+1)*math.Exp2(61)
		n += d * max(min(end, hi)-max(begin, lo), 0) / math.Exp2(61)
	}
	return n
}

// provided returns a state in which the table has a throughput in request units per second, or none if units is 0.
func provided(units int, m *topology.Snapshot) *meta.State {
	s := *meta.Empty().WithTopology(m)
	t := &schema.Table{Keyspace: "ks", Name: "t", ID: table}
	if units > 0 {
		t.Options.Cosmos = map[string]string{"cosmosdb_provisioned_throughput": strconv.Itoa(units)}
	}
	s.Schema = s.Schema.With(&schema.Keyspace{Name: "ks", Tables: map[string]*schema.Table{"t": t}})
	return &s
}

// step advances the time by some seconds: leaders measure, large or hot partitions split, and idle partitions merge.
func (w *modelTable) step() {
	w.now = w.now.Add(15 * time.Second)
	var quiet []Candidate
	for _, p := range w.s.Topology.Partitions(table) {
		if w.epochs[p.ID] != p.Epoch {
			w.epochs[p.ID], w.calm[p.ID], w.heat[p.ID] = p.Epoch, &IdleTracker{}, &split.HotTimer{}
		}
		units := of(w.load, p.Span)
		if w.rng != nil {
			units *= 0.75 + w.rng.Float64()/2
		}
		q := Candidate{Partition: p.ID, Epoch: p.Epoch, Bytes: uint64(of(w.bytes, p.Span)),
			Load: units}
		q.SmallFor, q.IdleFor = w.calm[p.ID].Observe(w.now, q.Bytes, mostBytes, q.Load, limit)
		if min(q.SmallFor, q.IdleFor) >= w.rules.IdlePeriod {
			quiet = append(quiet, q)
		}
		hot := w.heat[p.ID].Due(w.now, split.Exceeds(q.Load, limit))
		if q.Bytes > split.SizeThreshold(mostBytes) || hot {
			w.split(p)
		}
	}
	before := w.s
	for _, o := range w.rules.Choose(w.s, quiet, w.now) {
		next, gathering, err := o.Apply(w.s, w.now)
		if err != nil || gathering {
			w.t.Fatalf("%+v: %v, gathering %v", o, err, gathering)
		}
		w.s = next
	}
	if InProgress(w.s.Topology) > MaxConcurrent {
		w.t.Fatalf("%d merges are in progress", InProgress(w.s.Topology))
	}
	for p := range before.Topology.All() {
		if now := w.s.Topology.Partition(p.ID); now != nil && now.Merge != nil && now.Merge.Left == p.ID {
			w.join(now)
		}
	}
}

func (w *modelTable) split(p *topology.Partition) {
	size := p.Span.Limit.Ring - p.Span.Begin.Ring // 0 is the whole ring, for which half also works
	if p.Span.Limit.IsZero() {
		size = -p.Span.Begin.Ring
	}
	half := size / 2
	if size == 0 {
		half = 1 << 63
	}
	o := split.Request{Table: table, Partition: p.ID, At: topology.Position{Ring: p.Span.Begin.Ring + half},
		Cause: topology.BySize}
	next, err := o.Apply(w.s, w.now)
	if err != nil {
		return // the cooldown rejects the request
	}
	child := next.Topology.Partition(p.ID).Split.Child
	if w.merged[p.ID] {
		w.t.Fatalf("partition %d has merged and splits again, and nothing else has changed", p.ID)
	}
	m, err := next.Topology.EndSplit(p.ID, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = next.WithTopology(m).WithEvent(meta.Event{Kind: meta.Split, Partition: p.ID, Other: child,
		Ended: w.now.UnixMilli()})
	w.changes++
}

func (w *modelTable) join(l *topology.Partition) {
	r := w.s.Topology.Partition(l.Merge.Right)
	m := w.s.Topology
	for _, member := range r.Sets[0].Replicas {
		var err error
		if m, err = m.MergeReady(r.ID, member.ID, 40, w.now); err != nil {
			w.t.Fatal(err)
		}
	}
	m, err := m.EndMerge(l.ID, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = w.s.WithTopology(m).WithEvent(meta.Event{Kind: meta.Merge, Partition: l.ID, Other: r.ID,
		Ended: w.now.UnixMilli()})
	w.merged[l.ID] = true
	w.changes++
}

// TestNothingFlaps checks that splits and merges end after any growth or shrinkage of a table, by bytes and by load
// (MG4). A merged partition does not split again unless the table changes, and nothing changes in the last of many
// hours. A table that has become empty and idle must return to its initial number of partitions, and must never have
// fewer partitions. A table with a throughput must keep the partitions that the throughput requires, and no more than a
// new table would get.
func TestNothingFlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made := rapid.IntRange(1, 3).Draw(t, "made")
		m, err := topology.New().WithLevel(MinFeatureLevel).AddTable(table, made,
			[]topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}})
		if err != nil {
			t.Fatal(err)
		}
		least := rapid.IntRange(0, 3).Draw(t, "least")
		w := &modelTable{t: t, s: provided(10_000*least, m), now: time.UnixMilli(1e12),
			calm: map[topology.PartitionID]*IdleTracker{}, epochs: map[topology.PartitionID]uint64{},
			heat: map[topology.PartitionID]*split.HotTimer{},
			rules: Rules{Limits: limitOf(mostBytes), LoadLimit: limit,
				IdlePeriod: time.Minute}}
		for phase := range 3 {
			w.merged = map[topology.PartitionID]bool{}
			for i := range w.bytes {
				w.bytes[i], w.load[i] = 0, 0
				if phase < 2 {
					w.bytes[i] = rapid.Float64Range(0, 800).Draw(t, "bytes")
					w.load[i] = rapid.Float64Range(0, 800).Draw(t, "load")
				}
			}
			most := 0
			w.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "noise"), 1))
			for i := range 400 {
				if i == 200 {
					w.rng = nil
				}
				w.step()
				if n := len(w.s.Topology.Partitions(table)); n < min(made, cmp.Or(least, made)) {
					t.Fatalf("%d partitions of a table that was made with %d and needs %d", n, made, least)
				}
				most = max(most, len(w.s.Topology.Partitions(table)))
			}
			w.changes = 0
			for range 40 {
				w.step()
			}
			if w.changes > 0 {
				t.Fatalf("phase %d: %d changes in the last minutes, %d partitions", phase, w.changes,
					len(w.s.Topology.Partitions(table)))
			}
			n, fewest, many := len(w.s.Topology.Partitions(table)), made, made
			if least > 0 {
				fewest, many = min(least, most), max(min(least, most), min(made, (10*least+5)/6))
			}
			if phase == 2 && (n < fewest || n > many) {
				t.Fatalf("%d partitions of an empty one, made with %d, %d at least of %d", n, made, least, most)
			}
		}
	})
}

// pairOfQuiet returns a table whose right partition was split off its left partition, and the reports of their leaders.
func pairOfQuiet(t *testing.T, now time.Time) (*meta.State, []Candidate) {
	t.Helper()
	m, err := topology.New().WithLevel(MinFeatureLevel).AddTable(table, 1,
		[]topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}})
	if err != nil {
		t.Fatal(err)
	}
	long := now.Add(-24 * time.Hour)
	if m, err = m.BeginSplit(1, topology.Position{Ring: 1 << 63}, topology.ByOperator, long); err == nil {
		m, err = m.EndSplit(1, long)
	}
	if err != nil {
		t.Fatal(err)
	}
	q := Candidate{Epoch: 2, Bytes: 100, Load: 100, SmallFor: time.Hour, IdleFor: time.Hour}
	l, r := q, q
	l.Partition, r.Partition = 1, 2
	return meta.Empty().WithTopology(m), []Candidate{l, r}
}

// madeWithTwo returns a topology whose table was created with two partitions, and adjusts the reports in q to this
// topology.
func madeWithTwo(t *testing.T, q []Candidate) *topology.Snapshot {
	m, err := topology.New().WithLevel(MinFeatureLevel).AddTable(table, 2,
		[]topology.Place{{Region: "r", Nodes: []topology.NodeID{{1}, {2}, {3}}}})
	if err != nil {
		t.Fatal(err)
	}
	q[0].Epoch, q[1].Epoch = 1, 1
	return m
}

// TestChoose checks that two idle neighbors are merged if and only if all conditions are met.
func TestChoose(t *testing.T) {
	now := time.UnixMilli(1e12)
	for name, c := range map[string]struct {
		want   int
		change func(s **meta.State, q []Candidate, r *Rules)
	}{
		"both are quiet": {1, func(**meta.State, []Candidate, *Rules) {}},
		"off":            {0, func(_ **meta.State, _ []Candidate, r *Rules) { r.IdlePeriod = 0 }},
		"large together": {0, func(_ **meta.State, q []Candidate, _ *Rules) { q[0].Bytes, q[1].Bytes = 200, 121 }},
		"busy together":  {0, func(_ **meta.State, q []Candidate, _ *Rules) { q[0].Load = 301 }},
		"not for long":   {0, func(_ **meta.State, q []Candidate, _ *Rules) { q[1].IdleFor = 59 * time.Second }},
		"another span":   {0, func(_ **meta.State, q []Candidate, _ *Rules) { q[1].Epoch = 1 }},
		"one is unknown": {0, func(_ **meta.State, q []Candidate, _ *Rules) { q[1].Partition = 7 }},
		"a system table": {0, func(_ **meta.State, _ []Candidate,
			r *Rules) {
			r.Limits = limitOf(0)
		}},
		"two are needed": {0, func(s **meta.State, _ []Candidate, _ *Rules) { *s = provided(10_100, (*s).Topology) }},
		"one is needed":  {1, func(s **meta.State, _ []Candidate, _ *Rules) { *s = provided(10_000, (*s).Topology) }},
		"made with two":  {0, func(s **meta.State, q []Candidate, _ *Rules) { *s = provided(0, madeWithTwo(t, q)) }},
		"made with two, would be with one": {1, func(s **meta.State, q []Candidate, _ *Rules) {
			*s = provided(6_000, madeWithTwo(t, q))
		}},
		"made with two, would be again": {0, func(s **meta.State, q []Candidate, _ *Rules) {
			*s = provided(6_100, madeWithTwo(t, q))
		}},
		"a node is down": {0, func(_ **meta.State, _ []Candidate, r *Rules) {
			r.Nodes = without{2}
		}},
		"moved by hand": {0, func(s **meta.State, _ []Candidate, _ *Rules) {
			m, err := (*s).Topology.WithPin(2, &topology.PlacementPin{Nodes: []topology.NodeID{{1}},
				Until: now.UnixMilli() + 1})
			if err != nil {
				t.Fatal(err)
			}
			*s = (*s).WithTopology(m)
		}},
		"a replica moves": {0, func(s **meta.State, _ []Candidate, _ *Rules) {
			m, _, err := (*s).Topology.AddMember(1, "r", topology.NodeID{4}, topology.Joining)
			if err != nil {
				t.Fatal(err)
			}
			*s = (*s).WithTopology(m)
		}},
		"split lately": {0, func(s **meta.State, _ []Candidate, _ *Rules) {
			m, err := (*s).Topology.BeginSplit(2, topology.Position{Ring: 3 << 62}, topology.ByLoad, now)
			if err == nil {
				m, err = m.EndSplit(2, now.Add(-11*time.Minute))
			}
			if err != nil {
				t.Fatal(err)
			}
			*s = (*s).WithTopology(m).WithEvent(meta.Event{Kind: meta.Split, Partition: 2, Other: 3,
				Ended: now.Add(-11 * time.Minute).UnixMilli()})
		}},
		"two leaders": {0, func(_ **meta.State, q []Candidate, _ *Rules) { q[0].Partition = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			s, q := pairOfQuiet(t, now)
			r := Rules{Limits: limitOf(mostBytes), LoadLimit: limit, IdlePeriod: time.Minute}
			c.change(&s, q, &r)
			orders := r.Choose(s, q, now)
			if len(orders) != c.want {
				t.Fatalf("%+v", orders)
			}
			if c.want == 1 && (orders[0].Cause != topology.BySize || orders[0].First != 1 || orders[0].Second != 2) {
				t.Errorf("%+v", orders[0])
			}
		})
	}
	s, q := pairOfQuiet(t, now)
	q[0].IdleFor = 2 * time.Minute
	r := Rules{Limits: limitOf(mostBytes), LoadLimit: limit, IdlePeriod: time.Minute}
	if orders := r.Choose(s, q, now); len(orders) != 1 || orders[0].Cause != topology.ByLoad {
		t.Errorf("the load has become low last: %+v", orders)
	}
}

// TestSiblingsFirst checks that the two halves of the newest split are merged before other pairs, even if other pairs
// are smaller.
func TestSiblingsFirst(t *testing.T) {
	now := time.UnixMilli(1e12)
	long := now.Add(-24 * time.Hour)
	s, q := pairOfQuiet(t, now)
	m, err := s.Topology.BeginSplit(2, topology.Position{Ring: 3 << 62}, topology.ByOperator, long)
	if err == nil {
		m, err = m.EndSplit(2, long)
	}
	if err != nil {
		t.Fatal(err)
	}
	q[1].Epoch++
	third := q[1]
	third.Partition, third.Bytes = 3, 1000
	q = append(q, third)
	r := Rules{Limits: limitOf(1 << 20), LoadLimit: 10_000, IdlePeriod: time.Minute}
	orders := r.Choose(s.WithTopology(m), q, now)
	if len(orders) != 1 || orders[0].First != 2 || orders[0].Second != 3 {
		t.Errorf("%+v", orders)
	}
}

// TestGathered checks the merge of neighbors on different nodes. The smaller partition must move first, and the merge
// must be requested when both partitions are on the same nodes. The merge must not be requested after the time limit or
// after an earlier attempt.
func TestGathered(t *testing.T) {
	now := time.UnixMilli(1e12)
	s, q := pairOfQuiet(t, now)
	m, _, err := s.Topology.AddMember(1, "r", topology.NodeID{4}, topology.Joining)
	if err == nil {
		old := m.Partition(1).Sets[0]
		if m, err = m.Mark(1, old.On(topology.NodeID{3}).ID, topology.Leaving); err == nil {
			m, err = m.RecordVoters(1, "r", []topology.ReplicaID{old.On(topology.NodeID{1}).ID,
				old.On(topology.NodeID{2}).ID, old.On(topology.NodeID{4}).ID})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	q[1].Bytes++
	r := Rules{Limits: limitOf(mostBytes), LoadLimit: limit, IdlePeriod: time.Minute}
	orders := r.Choose(s.WithTopology(m), q, now)
	if len(orders) != 1 {
		t.Fatalf("%+v", orders)
	}
	s, gathering, err := orders[0].Apply(s.WithTopology(m), now)
	if wish := s.Topology.Partition(1).Pin; err != nil || !gathering || !reflect.DeepEqual(wish.Nodes,
		[]topology.NodeID{{1}, {2}, {3}}) {
		t.Fatalf("%+v, %v, %v", wish, gathering, err)
	}
	if again := append(r.Choose(s, q, now), ColocatedRequests(s, now)...); len(again) > 0 {
		t.Fatalf("requested again: %+v", again)
	}
	there, err := s.Topology.WithPin(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := there.Partition(1).Sets[0]
	if m, _, err = s.Topology.AddMember(1, "r", topology.NodeID{3}, topology.Joining); err == nil {
		joining := m.Partition(1).Sets[0].On(topology.NodeID{3}).ID
		if m, err = m.Mark(1, old.On(topology.NodeID{4}).ID, topology.Leaving); err == nil {
			m, err = m.RecordVoters(1, "r", []topology.ReplicaID{old.On(topology.NodeID{1}).ID,
				old.On(topology.NodeID{2}).ID, joining})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	s = s.WithTopology(m)
	if late := ColocatedRequests(s, now.Add(ColocateTimeout)); len(late) > 0 {
		t.Errorf("requested after the time limit: %+v", late)
	}
	orders = ColocatedRequests(s, now)
	if len(orders) != 1 || !placement.Colocated(m.Partition(1), m.Partition(2)) {
		t.Fatalf("%+v", orders)
	}
	if s, gathering, err = orders[0].Apply(s, now); err != nil || gathering || s.Topology.Partition(1).Merge == nil ||
		s.Topology.Partition(1).Reason.Cause != topology.BySize {
		t.Fatalf("%v, %v", gathering, err)
	}
	if m, err = s.Topology.CancelMerge(1); err == nil {
		m, err = m.EndMergeCancel(1, now)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again := ColocatedRequests(s.WithTopology(m), now); len(again) > 0 {
		t.Errorf("requested after it was canceled: %+v", again)
	}
}

// TestQuietIsTold checks that the merge candidates that a leader reports can be decoded without loss, and that damaged
// encodings are rejected.
func TestQuietIsTold(t *testing.T) {
	now := time.UnixMilli(1e12)
	_, want := pairOfQuiet(t, now)
	b, _ := Candidates(want).AppendBinary(nil)
	var got Candidates
	err := got.UnmarshalBinary(b)
	if err != nil || !reflect.DeepEqual([]Candidate(got), want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range b {
		if new(Candidates).UnmarshalBinary(b[:i]) == nil {
			t.Errorf("%d of %d bytes are taken", i, len(b))
		}
	}
	b, _ = make(Candidates, candidatesMax+1).AppendBinary(nil)
	if err := got.UnmarshalBinary(b); err != nil || len(got) != candidatesMax {
		t.Errorf("%d, %v", len(got), err)
	}
}

// TestCancel checks that a merge can be canceled until all of its replicas are frozen, including during the colocation.
// It also checks the cancellation of splits and moves. Cancel must fail if no change is pending.
func TestCancel(t *testing.T) {
	now := time.UnixMilli(1e12)
	at, _ := pairOfQuiet(t, now)
	wish := func(s *meta.State, id, with topology.PartitionID) *meta.State {
		w := topology.PlacementPin{Nodes: []topology.NodeID{{1}}, Until: now.UnixMilli() + 1, MergeWith: with}
		m, err := s.Topology.WithPin(id, &w)
		if err != nil {
			t.Fatal(err)
		}
		return s.WithTopology(m)
	}
	order := Request{Table: table, First: 1, Second: 2, SkipCooldown: true}
	joins, _, err := order.Apply(at, now)
	if err != nil {
		t.Fatal(err)
	}
	ready := joins
	for _, r := range joins.Topology.Partition(2).Sets[0].Replicas {
		m, err := ready.Topology.MergeReady(2, r.ID, 40, now)
		if err != nil {
			t.Fatal(err)
		}
		ready = ready.WithTopology(m)
	}
	cut := split.Request{Table: table, Partition: 1, At: topology.Position{Ring: 1 << 62}, SkipCooldown: true}
	splits, err := cut.Apply(at, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		s  *meta.State
		ok bool
	}{
		"nothing": {at, false}, "split": {splits, true}, "all are frozen": {ready, false}, "merge": {joins, true},
		"move": {wish(at, 1, 0), true}, "brought together": {wish(wish(at, 1, 2), 2, 1), true},
	} {
		next, what, err := Cancel(c.s, table, 1)
		if (err == nil) != c.ok {
			t.Errorf("%s: %s, %v", name, what, err)
			continue
		}
		if err != nil {
			continue
		}
		for _, p := range next.Topology.Partitions(table) {
			if p.Pin != nil || p.Merge != nil && p.Merge.Stage != topology.Unfreezing || p.Split != nil &&
				!p.Split.Canceled {
				t.Errorf("%s: partition %d has %+v, %+v and %+v", name, p.ID, p.Pin, p.Merge, p.Split)
			}
		}
	}
}
