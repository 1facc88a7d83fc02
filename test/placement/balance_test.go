// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"flag"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/topology"
)

var long = flag.Bool("long", false, "1,000 nodes and 100,000 partitions instead of 60 and 3,000")

// TestBalance simulates a cluster with tables of different sizes, growth, and daily load changes. Nodes of different
// sizes join and leave, and a zone fails. The test reports each phase and checks that balancing terminates with all
// nodes close to their tolerance. Balancing may move only slightly more bytes than necessary, and almost no replica
// may move back and forth.
func TestBalance(t *testing.T) {
	nodes, partitions := 60, 3000
	if *long {
		nodes, partitions = 1000, 100_000
	}
	w := newModelCluster(t, 1, nodes, 5, partitions)
	w.ring = true
	w.run("by the ring alone", time.Hour, nil)
	w.ring = false
	check := func(factor float64) {
		t.Helper()
		p := w.phase
		if !p.rested {
			t.Errorf("%s: balancing does not come to rest after %v", p.name, p.took)
		}
		// In the short form, a partition is at least a tenth of a node's share.
		if most := 1 + placement.Tolerance + 0.05; p.bytesOver > most && *long || p.bytesOver > most+0.2 {
			t.Errorf("%s: a node has %.2f of its share", p.name, p.bytesOver)
		}
		if p.bytesLow < 0.6 {
			t.Errorf("%s: a node has %.2f of its share", p.name, p.bytesLow)
		}
		if p.bytes > factor*p.least+float64(p.moves)*0.1*gib+1 && p.bytes > factor*p.least+0.02*w.total() {
			t.Errorf("%s: moved %.2f TB, the minimum is %.2f TB", p.name, p.bytes/1e12, p.least/1e12)
		}
		if p.returned > 1+p.moves/10 {
			t.Errorf("%s: %d of %d moves are reversals", p.name, p.returned, p.moves)
		}
	}
	const days = 20 * 24 * time.Hour
	w.run("sizes are known", days, nil)
	check(2)
	w.size(func(id topology.PartitionID, s placement.Size) placement.Size {
		return placement.Size{Bytes: s.Bytes * (1.5 + float64(id%11)/10), Load: s.Load}
	})
	w.run("partitions have grown unevenly", days, nil)
	check(3)
	grown := w.view.Sizes
	hour := 0.0
	w.run("a day", 24*time.Hour, func() {
		hour += 10 * tick.Hours()
		if math.Mod(hour, 0.5) >= 10*tick.Hours() {
			return
		}
		w.size(func(id topology.PartitionID, _ placement.Size) placement.Size {
			s := grown[id]
			return placement.Size{Bytes: s.Bytes, Load: s.Load * (1.2 + math.Sin(hour*math.Pi/12+float64(id%3)))}
		})
	})
	if p := w.phase; p.returned > p.moves/10+1 {
		t.Errorf("%s: %d of %d moves are reversals", p.name, p.returned, p.moves)
	}
	w.view.Sizes = grown
	w.run("the day is over", days, nil)
	for i := range nodes / 50 {
		w.join(fmt.Sprint("zone", i%5), 1<<40)
	}
	w.run("a fiftieth more nodes", days, nil)
	check(8)
	for i := range nodes / 50 {
		w.join(fmt.Sprint("zone", i%5), 4<<40)
	}
	w.run("and as many of four times the size", days, nil)
	check(8)
	for i := range nodes / 50 {
		w.turn(w.state.Nodes[7*i].ID, meta.Leaving)
	}
	w.run("a fiftieth leaves", days, nil)
	check(3)
	for i := range nodes / 50 {
		if n := w.state.Nodes[7*i].ID; placement.Holds(w.state, n) > 0 {
			t.Errorf("node %x was decommissioned but is not empty", n[:2])
		}
		w.turn(w.state.Nodes[7*i].ID, meta.Left)
	}
	for _, n := range w.state.Nodes {
		if n.Zone == "zone1" {
			w.view.Down[n.ID] = w.view.Now.Add(-placement.DefaultRebuildDelay)
		}
	}
	w.run("one of five zones is lost", days, nil)
	check(3)
}

// total returns all bytes of the cluster.
func (w *modelCluster) total() float64 {
	all, _, _ := w.shares(w.held())
	return all.Bytes
}

// BenchmarkSchedule measures a decision with 1,000 nodes and 100,000 partitions, a third of which must move. The
// benchmark measures a new planner and a planner that has already made a decision in the same state.
func BenchmarkSchedule(b *testing.B) {
	w := newModelCluster(b, 1, 1000, 5, 100_000)
	b.Run("scratch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			placement.Schedule(w.state, w.view)
		}
	})
	b.Run("kept", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.planner.Schedule(w.state, w.view)
		}
	})
}
