// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/journal"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Options of a Host. The zero value is ready for use.
type Options struct {
	// Durability says when writes are acknowledged that no other node has.
	Durability Durability
	// SyncInterval is the time between syncs in Periodic mode; 10 ms if 0.
	SyncInterval time.Duration
	// GroupMax bounds the writes of a node that wait to be applied and durable; 65536 if 0.
	GroupMax int
	// LatchQueueMax bounds the writes that wait for one partition key; 1024 if 0.
	LatchQueueMax int
	// LatchWait bounds how long a write waits for a partition key; 2 s if 0.
	LatchWait time.Duration
	// Transactions bound what one transaction may take.
	Transactions TransactionBounds
	// Now is the clock of stamps; time.Now if nil.
	Now func() time.Time
	// DedupeReach is command.DedupeReach if 0; simulations have less time.
	DedupeReach time.Duration
	// Hot is told, at the turn of a second, that a partition with a throughput is hot, or is not any more; see
	// usage.Partition.Hot. nil: nobody is.
	Hot func(r *Replica, hot bool)
	// Journal is told what replicas apply, for an archive; nil for nobody.
	Journal *journal.Journal
	// Log hears of programs that panic; slog.Default if nil.
	Log *slog.Logger
	// Cluster makes the replicas members of replica sets; nil for partitions that have one replica, here. Durability,
	// SyncInterval and GroupMax do not matter then: a write is acknowledged when a quorum has it on disk.
	Cluster *Cluster
}

func (o Options) withDefaults() Options {
	if o.SyncInterval == 0 {
		o.SyncInterval = 10 * time.Millisecond
	}
	if o.GroupMax == 0 {
		o.GroupMax = 1 << 16
	}
	if o.LatchQueueMax == 0 {
		o.LatchQueueMax = 1024
	}
	if o.LatchWait == 0 {
		o.LatchWait = 2 * time.Second
	}
	if o.DedupeReach == 0 {
		o.DedupeReach = command.DedupeReach
	}
	o.Transactions = o.Transactions.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Cluster != nil && o.Cluster.StalenessMax == 0 {
		c := *o.Cluster
		c.StalenessMax = 500 * time.Millisecond
		o.Cluster = &c
	}
	return o
}

// Host holds the replicas of a node on one store.
type Host struct {
	store   Store
	opts    Options
	latches *latches
	machine *machine
	seqs    sequencers
	// clock is that of leases, and of how long ids are remembered.
	clock raftgroup.Clock
	// budgetClock is the clock of budgets, which is read by every request that has one.
	budgetClock func() budget.Instant
	throughputs atomic.Pointer[Throughputs]
	programs    atomic.Pointer[Programs]
	batches     atomic.Pointer[Batches]
	asking      atomic.Int32 // questions to batches in flight
	folds       atomic.Pointer[Folds]
	folding     atomic.Int64 // folds under way
	views       atomic.Pointer[Views]
	// drive is nil but in simulations.
	drive *Drive
	// memory counts how often replicas began to remember ids anew; see Memory.
	memory atomic.Uint64
	// abstains are the Reasons that hold.
	abstains atomic.Uint32
	readers  sync.Pool // *meter
	flights  sync.Pool // *flight
	// heavy is told when somebody should look at Replica.Heavy.
	heavy chan struct{}

	// mu orders changes of replicas, but for the children of splits, which the machine makes; listing orders all. The
	// map itself is never changed, only replaced. Whoever holds listing waits for the disk alone.
	mu       sync.Mutex
	listing  sync.Mutex
	closed   bool
	ended    chan struct{} // closed with the host
	tidied   sync.WaitGroup
	replicas atomic.Pointer[map[topology.PartitionID]*Replica]
	// buried are replicas whose spans others have taken, by id, as long as the machine may be given entries of theirs.
	buried sync.Map
}

// Open opens every replica that is in the store. The caller closes the host before the store.
func Open(s Store, o Options) (*Host, error) {
	h := newHost(s, o)
	metas := []keys.Meta{}
	err := s.Metas(func(m keys.Meta) error {
		metas = append(metas, m)
		return nil
	})
	if err != nil {
		h.machine.close()
		return nil, fmt.Errorf("open replicas: %w", err)
	}
	var g *raft
	if h.opts.Cluster != nil {
		g = newRaft(h)
		h.seqs = g
	} else {
		h.seqs = newCommitter(h)
	}
	list, err := h.load(metas)
	if err == nil && g != nil {
		err = g.start(list)
	}
	if err != nil {
		err = errors.Join(err, h.seqs.close())
		h.machine.close()
		return nil, err
	}
	if h.drive == nil {
		h.tidied.Go(h.tidy)
		h.tidied.Go(h.tick)
	}
	return h, nil
}

// newHost makes a host without sequencers.
func newHost(s Store, o Options) *Host {
	h := &Host{store: s, opts: o.withDefaults(), clock: raftgroup.BootClock{}, ended: make(chan struct{}),
		heavy: make(chan struct{}, 1)}
	opened := time.Now()
	h.budgetClock = func() budget.Instant { return budget.Instant(time.Since(opened)) }
	if c := h.opts.Cluster; c != nil {
		h.drive = c.Drive
		if c.Clock != nil {
			h.clock = c.Clock
			h.budgetClock = func() budget.Instant { return budget.Instant(c.Clock.Now()) }
		}
	}
	h.memory.Store(newMemory())
	h.latches = newLatches(h.opts.LatchQueueMax, h.opts.LatchWait)
	h.latches.drive = h.drive
	h.readers.New = func() any { return new(meter) }
	h.flights.New = func() any { return new(flight) }
	h.machine = newMachine(h)
	h.replicas.Store(&map[topology.PartitionID]*Replica{})
	return h
}

// load makes replicas of what is stored.
func (h *Host) load(metas []keys.Meta) ([]born, error) {
	metas, err := h.dropAbsorbed(metas)
	if err != nil {
		return nil, err
	}
	list, err := h.seqs.load(metas)
	if err != nil {
		return nil, err
	}
	replicas := make(map[topology.PartitionID]*Replica, len(list))
	for i := range list {
		r, err := newReplica(h, &list[i])
		if err != nil {
			return nil, fmt.Errorf("open partition %d: %w", list[i].id, err)
		}
		replicas[r.id] = r
	}
	if err := checkSpans(values(replicas)); err != nil {
		return nil, err
	}
	h.replicas.Store(&replicas)
	for _, r := range replicas {
		r.found()
	}
	return list, nil
}

// tidy lets go of ids where nothing is written any more.
func (h *Host) tidy() {
	tick := time.NewTicker(rememberFor)
	defer tick.Stop()
	for {
		select {
		case <-h.ended:
			return
		case <-tick.C:
		}
		now := h.clock.Now()
		for _, r := range *h.replicas.Load() {
			r.recent.tidy(now)
		}
	}
}

// tick has replicas note once a second what they have spent, just after the second has begun.
func (h *Host) tick() {
	for {
		now := h.opts.Now()
		next := time.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now))
		select {
		case <-h.ended:
			next.Stop()
			return
		case <-next.C:
		}
		h.TickUsage(h.opts.Now())
	}
}

// checkSpans enforces the invariant that spans of a node's replicas never overlap: they share one key space.
func checkSpans(all []*Replica) error {
	slices.SortFunc(all, func(a, b *Replica) int {
		return cmp.Or(cmp.Compare(a.Table(), b.Table()), a.state.Load().span.Begin.Compare(b.state.Load().span.Begin))
	})
	for i, r := range all[min(1, len(all)):] {
		before := all[i]
		if r.Table() == 0 {
			continue // it waits for its first snapshot
		}
		if span := before.state.Load().span; before.Table() == r.Table() && span.Overlaps(r.state.Load().span) {
			return fmt.Errorf("partition %d, %s, overlaps partition %d, %s", r.id, r.state.Load().span, before.id, span)
		}
	}
	return nil
}

// Replica returns a replica by its partition's id, nil if it is not here.
func (h *Host) Replica(id topology.PartitionID) *Replica { return (*h.replicas.Load())[id] }

// Replicas returns all replicas, by id.
func (h *Host) Replicas() []*Replica { return values(*h.replicas.Load()) }

func values(replicas map[topology.PartitionID]*Replica) []*Replica {
	out := make([]*Replica, 0, len(replicas))
	for _, r := range replicas {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Replica) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Len is the number of replicas.
func (h *Host) Len() int { return len(*h.replicas.Load()) }

// Member is the id of the replica of a partition that is here, 0 if there is none.
func (h *Host) Member(id topology.PartitionID) topology.ReplicaID {
	if r := h.Replica(id); r != nil {
		return r.Member()
	}
	return 0
}

// IDs are the ids of the partitions that have a replica here, ascending.
func (h *Host) IDs() []topology.PartitionID { return slices.Sorted(maps.Keys(*h.replicas.Load())) }

// TableOf is the table of a replica here, 0 if there is none or it waits for its first snapshot.
func (h *Host) TableOf(id topology.PartitionID) uint32 {
	if r := h.Replica(id); r != nil {
		return r.Table()
	}
	return 0
}

// Holds reports whether a replica here holds a part of a span of a table.
func (h *Host) Holds(table uint32, span topology.Span) bool {
	for _, r := range *h.replicas.Load() {
		if s := r.state.Load(); s.keys.Table == table && s.span.Overlaps(span) {
			return true
		}
	}
	return false
}

// Close waits for the requests under way and ends the host's goroutines. It leaves the store open.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	for _, r := range h.Replicas() {
		r.close()
	}
	close(h.ended)
	err := h.seqs.close()
	h.tidied.Wait()
	h.machine.close()
	return err
}

// Failed returns why the node accepts no more writes, nil if all is well.
func (h *Host) Failed() error { return h.seqs.failed() }

// NewestStamp is the highest stamp that any replica has given or applied, in microseconds; 0 if there is none.
func (h *Host) NewestStamp() (newest int64) {
	for _, r := range *h.replicas.Load() {
		newest = max(newest, r.stamps.last.Load())
	}
	return newest
}

// Memory grows whenever a replica of the node forgets which writes it has applied, as all do when the process begins;
// no two processes have a value in common. A write that is first sent after a node has told a value was not applied by
// those of its replicas whose memories are no younger, unless they remember it: see command.Mutation.
func (h *Host) Memory() uint64 { return h.memory.Load() }

func (h *Host) micros() int64 { return h.opts.Now().UnixMicro() }

// Spans are the parts of tables that the node's replicas lead and may sweep, by partition id.
func (h *Host) Spans() []keys.Span {
	rs := h.Replicas()
	out := make([]keys.Span, 0, len(rs))
	for _, r := range rs {
		if r.Leading() && !r.isMeta() && r.Frozen() == 0 {
			out = append(out, r.state.Load().keys)
		}
	}
	return out
}

// Sweep has the replica that holds the sweep's keys carry it out, and waits for it. The keys belong to one replica, as
// those that were found in one of Spans do. logged says that their table has a change log.
func (h *Host) Sweep(ctx context.Context, sw *command.Sweep, logged bool) error {
	if len(sw.Keys) == 0 {
		return nil
	}
	at, ok := positionOf(sw.Keys[0])
	if !ok {
		return fmt.Errorf("sweep of key %x: %w", sw.Keys[0], command.ErrMalformed)
	}
	for _, r := range *h.replicas.Load() {
		if r.Table() != sw.Table || !r.state.Load().keys.Holds(at) {
			continue
		}
		done := make(signal, 1)
		var err error
		if logged {
			err = r.SweepAlone(ctx, sw, done)
		} else {
			err = r.Sweep(sw, done)
		}
		if err != nil {
			return err
		}
		ended, err := await(h.drive, patience{ctx: context.Background()}, done)
		return errors.Join(err, ended)
	}
	return ErrClosed
}

// signal is a completion that somebody waits for.
type signal chan error

func (s signal) Done(err error) { s <- err }
