// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// largeMap returns a topology of 100,000 partitions with four replicas each: ten tables, one of them with the maximum
// number of partitions.
func largeMap(t testing.TB) *topology.Snapshot {
	t.Helper()
	m := topology.New()
	for i := range uint32(10) {
		n := (100_000 - topology.PartitionsMax) / 9
		if i == 0 {
			n = topology.PartitionsMax - 1
		}
		pieces := topology.Equal(n, nil)
		for j := range pieces {
			place := topology.Place{Region: "dc1"}
			for k := range 4 {
				at := (j*7 + k*251) % 1000
				place.Nodes = append(place.Nodes, topology.NodeID{byte(at), byte(at >> 8), 1})
			}
			pieces[j].Places = []topology.Place{place}
		}
		next, err := m.CutTable(1024+i, pieces)
		if err != nil {
			t.Fatal(err)
		}
		m = next
	}
	return m
}

// recordsOf returns the records of a state as a store contains them.
func recordsOf(t testing.TB, s *State) map[string][]byte {
	t.Helper()
	all, err := Empty().Diff(s)
	if err != nil {
		t.Fatal(err)
	}
	records := map[string][]byte{}
	put(records, all)
	return records
}

// TestLargeMap checks the cost of a topology of 100,000 partitions on a node: less than 1,000 bytes of memory per
// partition, regardless of the size of its records. A change of one partition must write two small records.
func TestLargeMap(t *testing.T) {
	m := largeMap(t)
	n := uint64(m.Len())
	records := recordsOf(t, Empty().WithTopology(m))
	stored := 0
	for key, value := range records {
		stored += len(key) + len(value)
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	s, err := Load(scanOf(records, 1))
	if err != nil {
		t.Fatal(err)
	}
	each := (heap() - before) / n
	runtime.KeepAlive(m)
	runtime.KeepAlive(records)
	t.Logf("%d partitions: %d bytes of memory each, %d in records", n, each, stored/int(n))
	if each >= 1000 || s.Topology.Len() != int(n) {
		t.Errorf("a partition of the topology takes %d bytes", each)
	}
	next, _, err := s.Topology.AddMember(topology.PartitionID(n/2), "dc1", topology.NodeID{9, 9, 9}, topology.Joining)
	if err != nil {
		t.Fatal(err)
	}
	change, err := s.Diff(s.WithTopology(next))
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, r := range change {
		size += len(r.Key) + len(r.Value)
	}
	if len(change) != 2 || size > 300 {
		t.Errorf("a change of one partition is %d records of %d bytes", len(change), size)
	}
	before = heap()
	const changes = 100
	followers := []*State{s}
	for i := range topology.PartitionID(changes) {
		f := followers[i]
		next, _, err := f.Topology.AddMember(topology.PartitionID(n/2)+i, "dc1", topology.NodeID{9, 9, 9},
			topology.Joining)
		if err != nil {
			t.Fatal(err)
		}
		if change, err = f.Diff(f.WithTopology(next)); err == nil {
			f, err = f.applyChange(uint64(i)+2, change)
		}
		if err != nil {
			t.Fatal(err)
		}
		followers = append(followers, f)
		if i > 0 {
			followers[i] = nil
		}
	}
	after := int64(heap() - before)
	if after > 2<<20 { // the lists of two tables, the paths, and the partitions that changed
		t.Errorf("%d changes of partitions have left %d bytes", changes, after)
	}
	runtime.KeepAlive(followers)
}

// BenchmarkLargeMap measures the cost of a topology of 100,000 partitions: loading it, applying a change of one
// partition in the largest table and in another table, and finding a position.
func BenchmarkLargeMap(b *testing.B) {
	m := largeMap(b)
	records := recordsOf(b, Empty().WithTopology(m))
	s, err := Load(scanOf(records, 1))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Load(scanOf(records, 1)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("reload", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.reload(scanOf(records, 2)); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, table := range []uint32{1024, 1030} {
		ps := s.Topology.Partitions(table)
		next, _, err := s.Topology.AddMember(ps[len(ps)/2].ID, "dc1", topology.NodeID{9, 9, 9}, topology.Joining)
		if err != nil {
			b.Fatal(err)
		}
		to := s.WithTopology(next)
		b.Run(fmt.Sprintf("change/%d", len(ps)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := s.Topology.AddMember(ps[len(ps)/2].ID, "dc1", topology.NodeID{9, 9, 9},
					topology.Joining); err != nil {
					b.Fatal(err)
				}
			}
		})
		var put []command.Record
		b.Run(fmt.Sprintf("difference/%d", len(ps)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if put, err = s.Diff(to); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("follow/%d", len(ps)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.applyChange(2, put); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("locate", func(b *testing.B) {
		b.ReportAllocs()
		i := uint64(0)
		for b.Loop() {
			if i += 0x9E3779B97F4A7C15; s.Topology.Find(1024, topology.Position{Ring: i}) < 0 {
				b.Fatal("not there")
			}
		}
	})
}
