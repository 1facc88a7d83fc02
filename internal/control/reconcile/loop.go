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
	// pressingEvery is the pause while a partition here merges: its requests may be waiting.
	pressingEvery = 10 * time.Millisecond
	balanceEvery  = time.Second
	// transfersMax bounds the leaderships that a node gives away in one round, so that its peers are not flooded.
	transfersMax = 64
	// stepTimeout bounds one change of members.
	stepTimeout = 10 * time.Second
	// stepsAtOnce bounds the replica sets that are changed at a time. One that waits for a quorum that is away, or for
	// the records, must not hold up those that could bring it back.
	stepsAtOnce = 8
	// pressingAtOnce bounds those beside them whose requests may be waiting. They are looked at before the others.
	pressingAtOnce = 4
)

// Members keeps the replica sets that this node leads as the map wants them. Its fields are set before Run.
type Members struct {
	Keeper *meta.Keeper
	// Replica returns the replica on this node, nil if there is none.
	Replica func(id topology.PartitionID) Replica
	// Failed is told why a step was not taken; it will be tried again.
	Failed func(id topology.PartitionID, err error)
	// Split, if not nil, is told of a split that the map has now, and of one that was taken back.
	Split func(p *topology.Partition, recalled bool)
	// Joined, if not nil, is told of a merge that the map has now, and of one that was taken back.
	Joined func(left, right topology.PartitionID, recalled bool)
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
	// press is how many at the head of the queue press. wake has a value when one has changed in the records.
	press int
	wake  chan struct{}
	// waits are of merges.
	waits map[topology.PartitionID]wait
}

// Look has partitions looked at soon: because they are led from here now, say.
func (m *Members) Look(ids ...topology.PartitionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.mark(id)
	}
}

// mark has a partition looked at in the next round. mu is held.
func (m *Members) mark(id topology.PartitionID) {
	if m.dirty == nil {
		m.dirty, m.taken = map[topology.PartitionID]bool{}, map[topology.PartitionID]bool{}
	}
	m.dirty[id] = true
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
		if pressing(p) {
			select {
			case m.pressed() <- struct{}{}:
			default:
			}
		}
	}
}

// pressing reports whether requests of a partition may be waiting for its next step: it merges.
func pressing(p *topology.Partition) bool { return p != nil && p.Join != nil }

// every calls f after each pause until ctx ends.
func every(ctx context.Context, s *sched.Scheduler, pause time.Duration, f func()) {
	for s.Sleep(ctx, pause) == nil {
		f()
	}
}

// Run takes steps until ctx ends.
func (m *Members) Run(ctx context.Context) {
	steps := &sched.Group{Scheduler: m.Sched}
	defer steps.Wait()
	var last time.Time
	for pause := membersEvery; m.Sched.Sleep(ctx, pause, m.pressed()) == nil; {
		now := m.Sched.Now()
		all := now.Sub(last) >= membersEvery
		if all {
			last = now
		}
		workers, press := m.round(all)
		for range workers {
			steps.Go(func() { m.work(ctx) })
		}
		pause = membersEvery
		if press {
			pause = pressingEvery
		}
	}
}

// pressed is the channel on which Run is woken up.
func (m *Members) pressed() chan struct{} {
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
func (m *Members) round(all bool) (workers int, press bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.dirty)+len(m.taken) == 0 {
		return 0, false
	}
	records := m.Keeper.State().Map
	for id := range m.taken {
		press = press || pressing(records.Partition(id))
	}
	for _, id := range slices.Sorted(maps.Keys(m.dirty)) {
		presses := pressing(records.Partition(id))
		press = press || presses
		switch {
		case m.taken[id] || !all && !presses:
			continue
		case presses:
			m.queue = slices.Insert(m.queue, m.press, id)
			m.press++
		default:
			m.queue = append(m.queue, id)
		}
		m.taken[id] = true
		delete(m.dirty, id)
	}
	workers = max(min(len(m.queue), stepsAtOnce+min(m.press, pressingAtOnce)-m.workers), 0)
	m.workers += workers
	return workers, press
}

// work looks at partitions until the queue is empty.
func (m *Members) work(ctx context.Context) {
	for {
		id, ok := m.next()
		if !ok {
			return
		}
		converged := m.look(ctx, id)
		m.mu.Lock()
		delete(m.taken, id)
		if !converged {
			m.mark(id)
		}
		m.mu.Unlock()
	}
}

// next takes a partition out of the queue; a worker that finds none ends.
func (m *Members) next() (id topology.PartitionID, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 || m.press == 0 && m.workers > stepsAtOnce {
		m.workers--
		return 0, false
	}
	id, m.queue = m.queue[0], m.queue[1:]
	m.press = max(m.press-1, 0)
	return id, true
}

// look takes one step at a partition. It reports whether nothing is left to be done there.
func (m *Members) look(ctx context.Context, id topology.PartitionID) (converged bool) {
	state := m.Keeper.State()
	p := state.Map.Partition(id)
	r := m.Replica(id)
	if p == nil || r == nil {
		return true
	}
	ctx, cancel := m.Sched.WithTimeout(ctx, stepTimeout)
	defer cancel()
	converged, err := m.step(ctx, r, p, state.Map.Level())
	if err != nil && m.Failed != nil {
		m.Failed(id, err)
	}
	return converged
}

// publish tells the map which replicas vote now. The map may have gone on since p: another leader has told it of its
// voters, and it wants another change by now. Then these voters say nothing about that, and are dropped: a voter that
// they lack would be taken for one that has gone.
func (m *Members) publish(ctx context.Context, p *topology.Partition, region string,
	voters []topology.ReplicaID) error {
	size := sizeOf(m.Size, p)
	_, err := m.Keeper.Update(ctx, func(s *meta.State) (*meta.State, error) {
		now := s.Map.Partition(p.ID)
		if now == nil || now.Moves != p.Moves {
			return s, nil
		}
		next, err := s.Map.RecordVoters(p.ID, region, voters)
		if err != nil || next == s.Map {
			return s, err
		}
		return withMoves(s.WithMap(next), now, now.Set(region), next.Partition(p.ID).Set(region), size,
			m.Sched.Wall()), nil
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
		to := placement.PreferredLeader(set, ring.Prefer(p, view.Now), may)
		if m := set.Member(to); m == nil || m.Node == b.Node || m.State != topology.Voter {
			continue
		}
		if r.Transfer(to) == nil { // a replica that lags is not given it, and asked again later
			given++
		}
	}
}
