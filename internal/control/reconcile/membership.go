// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/control/meta"
	"github.com/ilion-db/ilion/internal/control/placement"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// These are the intervals and the limits of the loops.
const (
	roundInterval = 100 * time.Millisecond
	// urgentInterval is the interval while a local partition is being merged, because requests may be waiting for the
	// merge.
	urgentInterval  = 10 * time.Millisecond
	balanceInterval = time.Second
	// transfersMax is the maximum number of leadership transfers in one round. The limit protects the other nodes.
	transfersMax = 64
	// stepTimeout is the time limit of one membership change.
	stepTimeout = 10 * time.Second
	// concurrentSteps is the maximum number of replica sets that change at the same time. It is greater than 1 so that
	// a set that waits for a quorum or for the metadata does not block other sets.
	concurrentSteps = 8
	// concurrentUrgentSteps is the maximum number of additional workers for partitions whose requests may be waiting.
	// These partitions are processed first.
	concurrentUrgentSteps = 4
)

// MembershipReconciler makes the replica sets that this node leads match the topology. The caller must set the exported
// fields before it calls Run.
type MembershipReconciler struct {
	// Region is the region of this node.
	Region   string
	Keeper   *meta.Keeper
	Replicas Replicas
	// Store may be nil.
	Store Store
	Log   *slog.Logger
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler

	mu sync.Mutex
	// dirty holds the partitions to reconcile in the next round. queue holds the partitions of this round. taken holds
	// the partitions that are in the queue or being processed.
	dirty, taken map[topology.PartitionID]bool
	queue        []topology.PartitionID
	workers      int
	// urgent is the number of urgent partitions at the head of the queue. wake receives a value when an urgent
	// partition has changed in the metadata.
	urgent int
	wake   chan struct{}
	// waits holds the waits of merges.
	waits map[topology.PartitionID]wait
}

// Enqueue schedules partitions for reconciliation, for example if this node has become their leader.
func (m *MembershipReconciler) Enqueue(ids ...topology.PartitionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.mark(id)
	}
}

// mark schedules a partition for the next round. The caller must hold mu.
func (m *MembershipReconciler) mark(id topology.PartitionID) {
	if m.dirty == nil {
		m.dirty, m.taken = map[topology.PartitionID]bool{}, map[topology.PartitionID]bool{}
	}
	m.dirty[id] = true
}

// MetadataChanged schedules the partitions that have changed, or all partitions if the feature level has changed.
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

// isUrgent reports whether a partition is being merged, because requests may be waiting for the merge.
func isUrgent(p *topology.Partition) bool { return p != nil && p.Merge != nil }

// runEvery calls f after each pause until ctx ends.
func runEvery(ctx context.Context, s *sched.Scheduler, pause time.Duration, f func()) {
	for s.Sleep(ctx, pause) == nil {
		f()
	}
}

// Run reconciles partitions until ctx ends.
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

// wakeChannel returns the channel that wakes Run.
func (m *MembershipReconciler) wakeChannel() chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wake == nil {
		m.wake = make(chan struct{}, 1)
	}
	return m.wake
}

// round moves dirty partitions to the queue, except partitions that are being processed. It returns the number of
// workers to start. If all is false, it moves only urgent partitions. press reports whether urgent partitions exist.
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

// worker reconciles partitions until the queue is empty.
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

// next takes a partition from the queue. ok is false if the worker must end.
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

// reconcile performs one step for a partition. It reports whether no more steps are necessary.
func (m *MembershipReconciler) reconcile(ctx context.Context, id topology.PartitionID) (converged bool) {
	state := m.Keeper.State()
	p := state.Topology.Partition(id)
	r := m.Replicas.Replica(id)
	if p == nil || r == nil {
		return true
	}
	ctx, cancel := m.Sched.WithTimeout(ctx, stepTimeout)
	defer cancel()
	converged, err := m.step(ctx, r, p, state.Topology.Level())
	if err != nil {
		m.Log.LogAttrs(ctx, slog.LevelDebug, "membership change failed", slog.Uint64("partition", uint64(id)),
			slog.String("error", err.Error()))
	}
	return converged
}

// publish records the current voters in the topology. It has no effect if the members of the partition in the topology
// have changed since p, because another leader has then recorded its voters.
func (m *MembershipReconciler) publish(ctx context.Context, p *topology.Partition, region string,
	voters []topology.ReplicaID) error {
	size := sizeOf(m.Store, p)
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

// LeaderBalancer transfers leaderships to the preferred nodes. The caller must set the exported fields before it calls
// Run.
type LeaderBalancer struct {
	Node topology.NodeID
	// Region is the region of this node.
	Region string
	Keeper *meta.Keeper
	Host   *partition.Host
	Member Member
	// Sched provides waits. It is nil outside simulations.
	Sched *sched.Scheduler
}

// Run transfers leaderships until ctx ends.
func (b *LeaderBalancer) Run(ctx context.Context) { runEvery(ctx, b.Sched, balanceInterval, b.round) }

func (b *LeaderBalancer) round() {
	s, view := b.Keeper.State(), b.Member.View()
	rings := map[string]*placement.Ring{}
	may := func(node topology.NodeID) bool { return view.MayLead(s.Node(node)) }
	given := 0
	for _, r := range b.Host.Replicas() {
		p := s.Topology.Partition(r.ID())
		if !r.Leading() || p == nil || given >= transfersMax {
			continue
		}
		set := p.GroupSet(b.Region)
		if set == nil {
			continue
		}
		ring := rings[set.Region]
		if ring == nil {
			ring = placement.RingOf(s, &view, set.Region)
			rings[set.Region] = ring
		}
		to := placement.PreferredLeader(set, ring.LeaderOrder(p, view.Now), may)
		if m := set.Member(to); m == nil || m.Node == b.Node || m.State != topology.Voter {
			continue
		}
		if r.Membership().Transfer(to) == nil { // a transfer to a lagging replica fails, and a later round retries it
			given++
		}
	}
}
