// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

const (
	region = "dc1"
	// tick is the virtual time between two decisions. stream is the transfer rate of a moving replica in bytes per
	// second.
	tick   = 15 * time.Second
	stream = 80e6
	gib    = 1 << 30
)

// modelCluster is a cluster in virtual time.
type modelCluster struct {
	t     testing.TB
	rng   *rand.Rand
	state *meta.State
	view  placement.View
	ring  bool // decide by the ring only, as if sizes were unknown
	parts []topology.PartitionID
	base  map[topology.PartitionID]placement.Size
	// flights holds the times at which the moves of partitions end.
	flights map[topology.PartitionID]time.Time
	left    map[[2]uint64]bool // pairs of a partition and a node that it has left in this phase
	phase   phase
	// planner makes the decisions.
	planner placement.Planner
}

// phase is the report of one phase of a run.
type phase struct {
	name        string
	took        time.Duration
	calls       int
	cpu, slow   time.Duration
	moves       int
	leads       int
	bytes       float64
	least       float64
	returned    int
	bytesOver   float64 // bytes on the fullest node, relative to its fair share
	bytesLow    float64 // bytes on the emptiest node, relative to its fair share
	loadOver    float64
	leadersOver float64 // maximum leader load of a node, relative to an equal share
	rested      bool
}

func newModelCluster(t testing.TB, seed uint64, nodes, zones, partitions int) *modelCluster {
	w := &modelCluster{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), state: meta.Empty(), flights: map[topology.PartitionID]time.Time{},
		base: map[topology.PartitionID]placement.Size{},
		view: placement.View{
			Now: time.Unix(1e9, 0), Down: map[topology.NodeID]time.Time{},
			Capacity: map[topology.NodeID]uint64{}, Sizes: map[topology.PartitionID]placement.Size{},
		},
	}
	for range nodes {
		w.join(fmt.Sprint("zone", len(w.state.Nodes)%zones), 1<<40)
	}
	for table := range uint32(10) {
		t := placement.Table{ID: 1024 + table, Parts: partitions / 10, Whole: true}
		m, err := w.state.Topology.CutTable(t.ID, placement.Place(w.state, &w.view, []string{region}, t))
		w.must(err)
		w.state = w.state.WithTopology(m)
		skew := math.Exp(w.rng.NormFloat64()) // the sizes of tables differ more than the sizes of a table's partitions
		for _, p := range m.Partitions(t.ID) {
			w.parts = append(w.parts, p.ID)
			w.base[p.ID] = placement.Size{
				Bytes: skew * math.Exp(w.rng.NormFloat64()/2) * gib, Load: 20 * math.Exp(w.rng.NormFloat64()),
			}
		}
	}
	w.size(func(_ topology.PartitionID, s placement.Size) placement.Size { return s })
	return w
}

func (w *modelCluster) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *modelCluster) join(zone string, capacity uint64) topology.NodeID {
	n := len(w.state.Nodes) + 1
	id := topology.NodeID{byte(n >> 8), byte(n)}
	w.state = w.state.WithNode(&meta.Node{
		ID: id, Region: region, Zone: zone, Tokens: []token.Token{placement.NextToken(w.state.Nodes, region)},
	})
	w.view.Capacity[id] = capacity
	return id
}

// turn changes the intended state of a node.
func (w *modelCluster) turn(id topology.NodeID, to meta.NodeState) {
	n := *w.state.Node(id)
	n.State = to
	w.state = w.state.WithNode(&n)
}

// size makes all partitions grow or shrink relative to their initial size.
func (w *modelCluster) size(f func(topology.PartitionID, placement.Size) placement.Size) {
	sizes := make(map[topology.PartitionID]placement.Size, len(w.parts))
	for _, id := range w.parts {
		sizes[id] = f(id, w.base[id])
	}
	w.view.Sizes = sizes
}

// decide calls Schedule and starts the moves that it returns.
func (w *modelCluster) decide() int {
	view := w.view
	if w.ring {
		view.Sizes = nil
	}
	began := time.Now()
	actions := w.planner.Schedule(w.state, view)
	cpu := time.Since(began)
	w.phase.calls++
	w.phase.cpu += cpu
	w.phase.slow = max(w.phase.slow, cpu)
	for _, a := range actions {
		m, err := a.Apply(w.state.Topology, w.view.Now)
		w.must(err)
		w.state = w.state.WithTopology(m)
		if a.Steps[0].Kind == placement.SetLeader {
			w.phase.leads++
			continue
		}
		bytes := 0.0
		for _, s := range a.Steps {
			key := [2]uint64{uint64(a.Partition), uint64(s.Node[0])<<8 | uint64(s.Node[1])}
			switch s.Kind {
			case placement.Add:
				bytes = w.view.Sizes[a.Partition].Bytes
				w.phase.moves++
				w.phase.bytes += bytes
				if w.left[key] {
					w.phase.returned++
				}
			case placement.Remove:
				w.left[key] = true
			}
		}
		w.flights[a.Partition] = w.view.Now.Add(time.Duration(bytes / stream * float64(time.Second)))
	}
	return len(actions)
}

// land completes the moves that have reached their end time.
func (w *modelCluster) land() {
	var done []topology.PartitionID
	for id, at := range w.flights {
		if !at.After(w.view.Now) {
			done = append(done, id)
		}
	}
	slices.Sort(done)
	for _, id := range done {
		delete(w.flights, id)
		var voters []topology.ReplicaID
		set := &w.state.Topology.Partition(id).Sets[0]
		for _, r := range set.Replicas {
			if r.State == topology.Voter || r.State == topology.Joining {
				voters = append(voters, r.ID)
			}
		}
		if len(voters) < 3 {
			w.t.Fatalf("partition %d is left with %d voters", id, len(voters))
		}
		m, err := w.state.Topology.RecordVoters(id, region, voters)
		w.must(err)
		w.state = w.state.WithTopology(m)
	}
}

// run advances the time until no work remains, or until a given time has passed.
func (w *modelCluster) run(name string, most time.Duration, each func()) {
	w.phase, w.left = phase{name: name, least: w.least()}, map[[2]uint64]bool{}
	began := w.view.Now
	for w.view.Now.Sub(began) < most {
		if each != nil {
			each()
		}
		w.land()
		if w.decide() == 0 && len(w.flights) == 0 && each == nil {
			w.phase.rested = true
			break
		}
		if each != nil {
			w.view.Now = w.view.Now.Add(9 * tick)
		}
		w.view.Now = w.view.Now.Add(tick)
	}
	w.phase.took = w.view.Now.Sub(began)
	w.measure()
	w.t.Log(w.phase)
}

// held returns the total size of the replicas on each node.
func (w *modelCluster) held() map[topology.NodeID]placement.Size {
	has := map[topology.NodeID]placement.Size{}
	for p := range w.state.Topology.All() {
		s := w.view.Sizes[p.ID]
		for _, r := range p.Sets[0].Replicas {
			h := has[r.Node]
			has[r.Node] = placement.Size{Bytes: h.Bytes + s.Bytes, Load: h.Load + s.Load}
		}
	}
	return has
}

func (w *modelCluster) stays(n *meta.Node) bool {
	since, down := w.view.Down[n.ID]
	return n.State == meta.Up && !(down && w.view.Now.Sub(since) >= placement.DefaultRebuildDelay)
}

// shares returns the total size of all replicas and the capacity of the nodes that stay.
func (w *modelCluster) shares(
	has map[topology.NodeID]placement.Size,
) (all placement.Size, capacity float64, nodes int) {
	for _, h := range has {
		all.Bytes += h.Bytes
		all.Load += h.Load
	}
	for _, n := range w.state.Nodes {
		if w.stays(n) {
			capacity += float64(w.view.Capacity[n.ID])
			nodes++
		}
	}
	return all, capacity, nodes
}

// least returns the minimum number of bytes that must move. Afterward, every node must be below its fair share plus
// the tolerance, and above the threshold below which it is filled.
func (w *modelCluster) least() float64 {
	has := w.held()
	all, capacity, _ := w.shares(has)
	over, under := 0.0, 0.0
	for _, n := range w.state.Nodes {
		share := 0.0
		if w.stays(n) {
			share = all.Bytes / capacity * float64(w.view.Capacity[n.ID])
		}
		over += max(0, has[n.ID].Bytes-share*(1+placement.Tolerance)-placement.BytesSlack)
		under += max(0, share*placement.LowMark-placement.BytesSlack-has[n.ID].Bytes)
	}
	return max(over, under)
}

func (w *modelCluster) measure() {
	has := w.held()
	all, capacity, nodes := w.shares(has)
	w.phase.bytesLow = 1
	ring := placement.RingOf(w.state, &w.view, region)
	leads := map[topology.NodeID]float64{}
	for p := range w.state.Topology.All() {
		set := &p.Sets[0]
		id := placement.PreferredLeader(set, ring.LeaderOrder(p, w.view.Now), func(n topology.NodeID) bool {
			return w.view.MayLead(w.state.Node(n))
		})
		if m := set.Member(id); m != nil {
			leads[m.Node] += w.view.Sizes[p.ID].Load
		}
	}
	for _, n := range w.state.Nodes {
		if !w.stays(n) {
			continue
		}
		fair := all.Bytes / capacity * float64(w.view.Capacity[n.ID])
		w.phase.bytesLow = min(w.phase.bytesLow, has[n.ID].Bytes/fair)
		w.phase.bytesOver = max(w.phase.bytesOver, has[n.ID].Bytes/fair)
		w.phase.loadOver = max(w.phase.loadOver, has[n.ID].Load/(all.Load/float64(nodes)))
		w.phase.leadersOver = max(w.phase.leadersOver, leads[n.ID]/(all.Load/placement.Replicas/float64(nodes)))
	}
	w.must(w.state.Topology.Validate())
}

// String returns a line of the report.
func (p phase) String() string {
	rest := p.took.Round(time.Minute).String()
	if !p.rested {
		rest = "> " + rest
	}
	cpu := p.cpu / time.Duration(cmp.Or(p.calls, 1))
	return fmt.Sprintf("%-37s bytes %.2f to %.2f load %.2f led %.2f | %d leaders, %d moves, %.1f TB of %.1f, %d returned"+
		" | %s | %d calls of %v, at most %v", p.name, p.bytesLow, p.bytesOver, p.loadOver, p.leadersOver, p.leads,
		p.moves, p.bytes/1e12, p.least/1e12, p.returned, rest, p.calls, cpu.Round(time.Millisecond),
		p.slow.Round(time.Millisecond))
}
