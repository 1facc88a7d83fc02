// SPDX-License-Identifier: Apache-2.0

package throughput

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/split"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const firstTable = 100

// state returns the state of a keyspace with a throughput. Tables without their own throughput share the throughput of
// their keyspace. Each table has its initial number of partitions. Throughputs are in request units per second. The
// value 0 means that no throughput is set.
func state(t rapid.TB, shared int, own ...int) *meta.State {
	option := func(units int) map[string]string {
		if units == 0 {
			return nil
		}
		return map[string]string{"cosmosdb_provisioned_throughput": strconv.Itoa(units)}
	}
	s := *meta.Empty()
	m, ks := topology.New().WithLevel(split.MinFeatureLevel), &schema.Keyspace{Name: "ks", Options: option(shared)}
	for i, units := range own {
		table := &schema.Table{Keyspace: "ks", Name: fmt.Sprint("t", i), ID: firstTable + uint32(i)}
		table.Options.Cosmos = option(units)
		s.Schema, s.Topology = meta.Empty().Schema.With(ks), m
		var err error
		if m, err = m.AddTable(table.ID, max(InitialPartitions(&s, table), 1), []topology.Place{{Region: "r",
			Nodes: []topology.NodeID{{1}}}}); err != nil {
			t.Fatal(err)
		}
		tables := map[string]*schema.Table{table.Name: table}
		for name, t := range ks.Tables {
			tables[name] = t
		}
		ks = &schema.Keyspace{Name: "ks", Options: ks.Options, Tables: tables}
	}
	s.Schema, s.Topology = meta.Empty().Schema.With(ks), m
	return &s
}

// TestAtFirst checks the initial number of partitions and the share of each partition. A table gets one partition for
// every 6,000 request units per second. Tables that share a throughput together get one partition for every 6,000
// request units per second.
func TestAtFirst(t *testing.T) {
	for _, c := range []struct {
		shared int
		own    []int
		want   string
	}{
		{0, []int{0}, "1 x 0 "},
		{0, []int{400, 6_000, 6_100, 18_000, 50_000}, "1 x 400 1 x 6000 2 x 3050 3 x 6000 9 x 5555 "},
		{18_000, []int{0}, "3 x 6000 "},
		{18_000, []int{0, 0}, "3 x 4500 1 x 4500 "},
		{6_000, []int{0, 12_000, 0, 0}, "1 x 2000 2 x 6000 1 x 2000 1 x 2000 "},
	} {
		s := state(t, c.shared, c.own...)
		shares, got := DividePerPartition(s), ""
		for i := range c.own {
			ps := s.Topology.Partitions(firstTable + uint32(i))
			got += fmt.Sprintf("%d x %d ", len(ps), shares.PerSecond[ps[0].ID])
		}
		if got != c.want {
			t.Errorf("%d for the keyspace, %d for tables: %s, want %s", c.shared, c.own, got, c.want)
		}
	}
}

// TestSplits checks that raising a throughput ends with exactly the required number of partitions. The parts of each
// original partition must have equal shares of the tokens.
func TestSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.IntRange(1, 300).Draw(t, "begin") * 100
		raised := rapid.IntRange(4, 10_000).Draw(t, "raised") * 100
		before := state(t, 0, begin)
		made := len(before.Topology.Partitions(firstTable))
		s := state(t, 0, raised)
		s.Topology = before.Topology
		now := time.UnixMilli(1e12)
		for round := 0; ; round++ {
			orders, under := Splits(s), slices.Collect(s.Topology.InMotion())
			if len(orders)+len(under) == 0 {
				break
			}
			if round > 1000 {
				t.Fatal("there is no end of it")
			}
			for _, o := range orders {
				if next, err := o.Apply(s, now); err == nil {
					s = next
				}
			}
			for _, p := range under { // some splits end, and the other splits are still in progress in the next round
				if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
					continue
				}
				m, err := s.Topology.EndSplit(p.ID, now)
				if err != nil {
					t.Fatal(err)
				}
				s = s.WithTopology(m)
			}
		}
		ps := s.Topology.Partitions(firstTable)
		if want := max((raised+9_999)/10_000, made); len(ps) != want {
			t.Fatalf("%d partitions, want %d", len(ps), want)
		}
		for _, old := range before.Topology.Partitions(firstTable) {
			var widths []float64
			for _, x := range segmentsOf(s.Topology, []uint32{firstTable}) {
				if old.Span.Holds(topology.Position{Ring: x.begin}) {
					widths = append(widths, x.width())
				}
			}
			for _, w := range widths {
				if math.Abs(w-widths[0]) > 1e-6*w {
					t.Fatalf("the shares of a partition are not equal: %v", widths)
				}
			}
		}
	})
}

// TestDivideDuringSplit checks that a split does not reduce the shares of other partitions before the topology
// contains it. Parent and child together always have the parent's share.
func TestDivideDuringSplit(t *testing.T) {
	s := state(t, 0, 18_000)
	ps := s.Topology.Partitions(firstTable)
	m, err := s.Topology.BeginSplit(ps[1].ID, topology.Position{Ring: 1 << 63}, topology.ByLoad, time.UnixMilli(1e12))
	if err != nil {
		t.Fatal(err)
	}
	child := m.Partition(ps[1].ID).Split.Child
	got := DividePerPartition(s.WithTopology(m))
	want := map[topology.PartitionID]int64{ps[0].ID: 6_000, ps[1].ID: 6_000, ps[2].ID: 6_000, child: 3_000}
	if !maps.Equal(got.PerSecond, want) || got.Children[ps[1].ID] != child || len(got.Children) != 1 {
		t.Errorf("%+v, want %v", got, want)
	}
	if m, err = m.EndSplit(ps[1].ID, time.UnixMilli(1e12)); err != nil {
		t.Fatal(err)
	}
	got = DividePerPartition(s.WithTopology(m))
	want = map[topology.PartitionID]int64{ps[0].ID: 4_500, ps[1].ID: 4_500, ps[2].ID: 4_500, child: 4_500}
	if !maps.Equal(got.PerSecond, want) || len(got.Children) > 0 {
		t.Errorf("%+v, want %v", got, want)
	}
}

// TestSplitsOfShared checks that tables that share a throughput are split together, the widest partitions first.
func TestSplitsOfShared(t *testing.T) {
	s := state(t, 40_000, 0, 0)
	s.Topology = state(t, 12_000, 0, 0).Topology // one table has two partitions, and one table has one partition
	orders := Splits(s)
	if len(orders) != 1 || orders[0].Table != firstTable+1 || orders[0].At.Ring != 1<<63 {
		t.Fatalf("%+v", orders)
	}
}
