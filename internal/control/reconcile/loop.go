// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// The pauses of the loops.
const (
	membersEvery = 100 * time.Millisecond
	balanceEvery = time.Second
	// transfersMax bounds the leaderships that a node gives away in one round, so that its peers are not flooded.
	transfersMax = 64
	// stepTimeout bounds one change of members.
	stepTimeout = 10 * time.Second
)

// Members keeps the replica sets that this node leads as the map wants them. Its fields are set before Run.
type Members struct {
	Keeper *meta.Keeper
	// Replica returns the replica on this node, nil if there is none.
	Replica func(id topology.PartitionID) Replica
	// Failed is told why a step was not taken; it will be tried again.
	Failed func(id topology.PartitionID, err error)
	// Sched is what the loop waits by, nil outside simulations.
	Sched *sched.Scheduler

	mu    sync.Mutex
	dirty map[topology.PartitionID]bool
}

// Look has partitions looked at soon: because they are led from here now, say.
func (m *Members) Look(ids ...topology.PartitionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dirty == nil {
		m.dirty = map[topology.PartitionID]bool{}
	}
	for _, id := range ids {
		m.dirty[id] = true
	}
}

// Changed has those partitions looked at whose members changed, and all of them if the feature level did.
func (m *Members) Changed(old, next *meta.State) {
	if old.Map.Level() != next.Map.Level() {
		for p := range next.Map.All() {
			m.Look(p.ID)
		}
	}
	for p := range changed(old.Map, next.Map) {
		m.Look(p.ID)
	}
}

// every calls f after each pause until ctx ends.
func every(ctx context.Context, s *sched.Scheduler, pause time.Duration, f func()) {
	for s.Sleep(ctx, pause) == nil {
		f()
	}
}

// Run takes steps until ctx ends.
func (m *Members) Run(ctx context.Context) {
	every(ctx, m.Sched, membersEvery, func() { m.round(ctx) })
}

func (m *Members) round(ctx context.Context) {
	m.mu.Lock()
	looks := slices.Sorted(maps.Keys(m.dirty))
	clear(m.dirty)
	m.mu.Unlock()
	for _, id := range looks {
		state := m.Keeper.State()
		p := state.Map.Partition(id)
		r := m.Replica(id)
		if p == nil || r == nil {
			continue
		}
		ctx, cancel := m.Sched.WithTimeout(ctx, stepTimeout)
		settled, err := m.step(ctx, r, p, state.Map.Level())
		cancel()
		if err != nil && m.Failed != nil {
			m.Failed(id, err)
		}
		if !settled {
			m.Look(id)
		}
	}
}

// publish tells the map who votes now. The map may have gone on since p: another leader has told it of its voters, and
// it wants another change by now. Then these voters say nothing about that, and are dropped: a voter that they lack
// would be taken for one that has gone.
func (m *Members) publish(ctx context.Context, p *topology.Partition, region string, voters []topology.ReplicaID) error {
	_, err := m.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		if now := s.Map.Partition(p.ID); now == nil || now.Moves != p.Moves {
			return s, nil
		}
		next, err := s.Map.Settle(p.ID, region, voters)
		if err != nil || next == s.Map {
			return s, err
		}
		return s.WithMap(next), nil
	})
	return err
}

// Balance gives leadership to whom the ring prefers. Its fields are set before Run.
type Balance struct {
	Node   topology.NodeID
	Keeper *meta.Keeper
	// Led returns the replicas on this node that lead.
	Led func() []Replica
	// View is what this node sees of the others.
	View func() placement.View
	// Sched is what the loop waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// Run moves leaderships until ctx ends.
func (b *Balance) Run(ctx context.Context) { every(ctx, b.Sched, balanceEvery, b.round) }

func (b *Balance) round() {
	s, view := b.Keeper.State(), b.View()
	rings := map[string]*placement.Ring{}
	may := func(node topology.NodeID) bool { return view.MayLead(s.Node(node)) }
	given := 0
	for _, r := range b.Led() {
		p := s.Map.Partition(r.ID())
		if p == nil || len(p.Sets) == 0 || given >= transfersMax {
			continue
		}
		set := &p.Sets[0]
		ring := rings[set.Region]
		if ring == nil {
			ring = placement.RingOf(s, &view, set.Region)
			rings[set.Region] = ring
		}
		to := placement.PreferredLeader(set, ring.Home(p, placement.Replicas), may)
		if m := set.Member(to); m == nil || m.Node == b.Node || m.State != topology.Voter {
			continue
		}
		if r.Transfer(to) == nil { // who lags behind is not given it, and asked again later
			given++
		}
	}
}
