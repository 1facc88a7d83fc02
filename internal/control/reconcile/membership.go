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
	roundInterval = 100 * time.Millisecond
	// urgentInterval is the pause while a partition here merges: its requests may be waiting.
	urgentInterval  = 10 * time.Millisecond
	balanceInterval = time.Second
	// transfersMax bounds the leaderships that a node gives away in one round, so that its peers are not flooded.
	transfersMax = 64
	// stepTimeout bounds one change of members.
	stepTimeout = 10 * time.Second
	// concurrentSteps bounds the replica sets that are changed at a time. One that waits for a quorum that is away, or
	// for the records, must not hold up those that could bring it back.
	concurrentSteps = 8
	// concurrentUrgentSteps bounds those beside them whose requests may be waiting. They are looked at before the
	// others.
	concurrentUrgentSteps = 4
)

// MembershipReconciler keeps the replica sets that this node leads as the map wants them. Its fields are set before
// Run.
type MembershipReconciler struct {
	Keeper *meta.Keeper
	// Replica returns the replica on this node, nil if there is none.
	Replica func(id topology.PartitionID) Replica
	// Failed is told why a step was not taken; it will be tried again.
	Failed func(id topology.PartitionID, err error)
	// Split, if not nil, is told of a split that the map has now, and of one that was taken back.
	SplitDone func(p *topology.Partition, recalled bool)
	// Joined, if not nil, is told of a merge that the map has now, and of one that was taken back.
	MergeDone func(left, right topology.PartitionID, recalled bool)
	// Size, if not nil, is how large a partition is on the disk of this node, in bytes.
	Size func(p *topology.Partition) uint64
	// Sched is what the loop waits by, nil outside simulations.
	Sched *sched.Scheduler

	mu sync.Mutex
	// dirty are the partitions to be looked at from the next round on, queue those of this round, and taken all that
	// are in the queue or with one of the workers.
	dirty, taken map[topology.PartitionID]bool
	queue        []topology.PartitionID
	workers      int
	// urgent is how many at the head of the queue press. wake has a value when one has changed in the records.
	urgent int
	wake   chan struct{}
	// waits are of merges.
	waits map[topology.PartitionID]wait
}

// Enqueue has partitions looked at soon: because they are led from here now, say.
func (m *MembershipReconciler) Enqueue(ids ...topology.PartitionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.mark(id)
	}
}

// mark has a partition looked at in the next round. mu is held.
func (m *MembershipReconciler) mark(id topology.PartitionID) {
	if m.dirty == nil {
		m.dirty, m.taken = map[topology.PartitionID]bool{}, map[topology.PartitionID]bool{}
	}
	m.dirty[id] = true
}

// MetadataChanged has those partitions looked at whose members changed, and all of them if the feature level did.
func (m *MembershipReconciler) MetadataChanged(old, next *meta.State) {
	if old.Topology.Level() != next.Topology.Level() {
		for p := range next.Topology.All() {
			m.Enqueue(p.ID)
		}
	}
	for p := range changed(old.Topology, next.Topology) {
		m.Enqueue(p.ID)
		if isUrgent(p) {
			select {
			case m.wakeChannel() <- struct{}{}:
			default:
			}
		}
	}
}

// isUrgent reports whether requests of a partition may be waiting for its next step: it merges.
func isUrgent(p *topology.Partition) bool { return p != nil && p.Merge != nil }

// runEvery calls f after each pause until ctx ends.
func runEvery(ctx context.Context, s *sched.Scheduler, pause time.Duration, f func()) {
	for s.Sleep(ctx, pause) == nil {
		f()
	}
}

// Run takes steps until ctx ends.
func (m *MembershipReconciler) Run(ctx context.Context) {
	steps := &sched.Group{Scheduler: m.Sched}
	defer steps.Wait()
	var last time.Time
	for pause := roundInterval; m.Sched.Sleep(ctx, pause, m.wakeChannel()) == nil; {
		now := m.Sched.Now()
		all := now.Sub(last) >= roundInterval
		if all {
			last = now
		}
		workers, press := m.round(all)
		for range workers {
			steps.Go(func() { m.worker(ctx) })
		}
		pause = roundInterval
		if press {
			pause = urgentInterval
		}
	}
}

// wakeChannel is the channel on which Run is woken up.
func (m *MembershipReconciler) wakeChannel() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wake == nil {
		m.wake = make(chan struct{}, 1)
	}
	return m.wake
}

// round puts what is to be looked at into the queue, but for partitions that are still being looked at, and returns how
// many workers are to begin. Between two rounds of all there are some of those that press alone; press says that there
// is any of these.
func (m *MembershipReconciler) round(all bool) (workers int, press bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.dirty)+len(m.taken) == 0 {
		return 0, false
	}
	records := m.Keeper.State().Topology
	for id := range m.taken {
		press = press || isUrgent(records.Partition(id))
	}
	for _, id := range slices.Sorted(maps.Keys(m.dirty)) {
		presses := isUrgent(records.Partition(id))
		press = press || presses
		switch {
		case m.taken[id] || !all && !presses:
			continue
		case presses:
			m.queue = slices.Insert(m.queue, m.urgent, id)
			m.urgent++
		default:
			m.queue = append(m.queue, id)
		}
		m.taken[id] = true
		delete(m.dirty, id)
	}
	workers = max(min(len(m.queue), concurrentSteps+min(m.urgent, concurrentUrgentSteps)-m.workers), 0)
	m.workers += workers
	return workers, press
}

// worker looks at partitions until the queue is empty.
func (m *MembershipReconciler) worker(ctx context.Context) {
	for {
		id, ok := m.next()
		if !ok {
			return
		}
		converged := m.reconcile(ctx, id)
		m.mu.Lock()
		delete(m.taken, id)
		if !converged {
			m.mark(id)
		}
		m.mu.Unlock()
	}
}

// next takes a partition out of the queue; a worker that finds none ends.
func (m *MembershipReconciler) next() (id topology.PartitionID, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 || m.urgent == 0 && m.workers > concurrentSteps {
		m.workers--
		return 0, false
	}
	id, m.queue = m.queue[0], m.queue[1:]
	m.urgent = max(m.urgent-1, 0)
	return id, true
}

// reconcile takes one step at a partition. It reports whether nothing is left to be done there.
func (m *MembershipReconciler) reconcile(ctx context.Context, id topology.PartitionID) (converged bool) {
	state := m.Keeper.State()
	p := state.Topology.Partition(id)
	r := m.Replica(id)
	if p == nil || r == nil {
		return true
	}
	ctx, cancel := m.Sched.WithTimeout(ctx, stepTimeout)
	defer cancel()
	converged, err := m.step(ctx, r, p, state.Topology.Level())
	if err != nil && m.Failed != nil {
		m.Failed(id, err)
	}
	return converged
}

// publish tells the map which replicas vote now. The map may have gone on since p: another leader has told it of its
// voters, and it wants another change by now. Then these voters say nothing about that, and are dropped: a voter that
// they lack would be taken for one that has gone.
func (m *MembershipReconciler) publish(ctx context.Context, p *topology.Partition, region string,
	voters []topology.ReplicaID) error {
	size := sizeOf(m.Size, p)
	_, err := m.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		now := s.Topology.Partition(p.ID)
		if now == nil || now.Moves != p.Moves {
			return s, nil
		}
		next, err := s.Topology.RecordVoters(p.ID, region, voters)
		if err != nil || next == s.Topology {
			return s, err
		}
		return withMoves(s.WithTopology(next), now, now.Set(region), next.Partition(p.ID).Set(region), size,
			m.Sched.Wall()), nil
	})
	return err
}

// LeaderBalancer gives leadership to whom the ring prefers. Its fields are set before Run.
type LeaderBalancer struct {
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
func (b *LeaderBalancer) Run(ctx context.Context) { runEvery(ctx, b.Sched, balanceInterval, b.round) }

func (b *LeaderBalancer) round() {
	s, view := b.Keeper.State(), b.View()
	rings := map[string]*placement.Ring{}
	may := func(node topology.NodeID) bool { return view.MayLead(s.Node(node)) }
	given := 0
	for _, r := range b.Led() {
		p := s.Topology.Partition(r.ID())
		if p == nil || len(p.Sets) == 0 || given >= transfersMax {
			continue
		}
		set := &p.Sets[0]
		ring := rings[set.Region]
		if ring == nil {
			ring = placement.RingOf(s, &view, set.Region)
			rings[set.Region] = ring
		}
		to := placement.PreferredLeader(set, ring.LeaderOrder(p, view.Now), may)
		if m := set.Member(to); m == nil || m.Node == b.Node || m.State != topology.Voter {
			continue
		}
		if r.Transfer(to) == nil { // a replica that lags is not given it, and asked again later
			given++
		}
	}
}
