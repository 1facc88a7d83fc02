// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/changebuffer"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Options configure a Host. The zero value is ready for use.
type Options struct {
	// Durability determines when unreplicated writes are acknowledged.
	Durability Durability
	// SyncInterval is the interval between syncs in Periodic mode. The default is 10 ms.
	SyncInterval time.Duration
	// GroupMax is the maximum number of unfinished writes on a node. The default is 65536.
	GroupMax int
	// LatchQueueMax is the maximum number of writes that wait for one partition key. The default is 1024.
	LatchQueueMax int
	// LatchWait is the maximum time for which a write waits for a partition key. The default is 2 s.
	LatchWait time.Duration
	// Transactions holds the limits of one transaction.
	Transactions TransactionBounds
	// Clock is the clock for timestamps. The default is sched.SystemClock.
	Clock sched.Clock
	// DedupeReach is the age from which a conditional without a dedupe record may have been applied. The default is
	// command.DedupeReach.
	DedupeReach time.Duration
	// Hot is called at the start of a second when a partition with a throughput limit becomes hot or stops being hot
	// (see usage.Partition.Hot). It may be nil.
	Hot func(r *Replica, hot bool)
	// ChangeBuffer receives the applied entries for an archiver. It may be nil.
	ChangeBuffer *changebuffer.Buffer
	// Log receives messages about programs that panic. The default is slog.Default.
	Log *slog.Logger
	// Cluster makes the replicas members of replica sets. If Cluster is nil, each partition has a single replica on
	// this node. If Cluster is not nil, the host ignores Durability, SyncInterval, and GroupMax, and acknowledges a
	// write when a quorum has stored the write on disk.
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
	if o.Clock == nil {
		o.Clock = sched.SystemClock
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Cluster != nil {
		c := *o.Cluster
		c.StalenessMax = cmp.Or(c.StalenessMax, 500*time.Millisecond)
		c.Observer = cmp.Or[Observer](c.Observer, NoObserver{})
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
	// clock is the clock of leases and of the dedupe window.
	clock raftgroup.Clock
	// budgetClock is the clock of budgets.
	budgetClock func() budget.Instant
	extensions
	// sim is nil except in simulations.
	sim *SimHooks
	// dedupeEpoch is incremented when a replica starts a new dedupe window; see DedupeEpoch.
	dedupeEpoch   atomic.Uint64
	readers       sync.Pool // *readMeter
	pendingWrites sync.Pool // *pendingWrite
	// writeSamplesReady is signaled when Load.WriteSamples should be called.
	writeSamplesReady chan struct{}

	// mu serializes the creation and removal of replicas, except that the machine creates the children of splits
	// without mu.
	mu sync.Mutex
	replicaMap
	closed bool
	ended  chan struct{} // closed when the host is closed
	tidied sync.WaitGroup
}

// Open opens all replicas in the store. The host must be closed before the store.
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
	var g *ReplicaSets
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
	if h.sim == nil {
		h.tidied.Go(h.expireDedupe)
		h.tidied.Go(h.tick)
	}
	return h, nil
}

// newHost returns a host without sequencers.
func newHost(s Store, o Options) *Host {
	h := &Host{store: s, opts: o.withDefaults(), clock: raftgroup.BootClock{}, ended: make(chan struct{}),
		writeSamplesReady: make(chan struct{}, 1)}
	opened := time.Now()
	h.budgetClock = func() budget.Instant { return budget.Instant(time.Since(opened)) }
	if c := h.opts.Cluster; c != nil {
		h.sim = c.SimHooks
		if c.Clock != nil {
			h.clock = c.Clock
			h.budgetClock = func() budget.Instant { return budget.Instant(c.Clock.Now()) }
		}
	}
	h.dedupeEpoch.Store(newDedupeEpoch())
	h.latches = newLatches(h.opts.LatchQueueMax, h.opts.LatchWait)
	h.latches.sim = h.sim
	h.readers.New = func() any { return new(readMeter) }
	h.pendingWrites.New = func() any { return new(pendingWrite) }
	h.machine = newMachine(h)
	h.replicas.Store(&map[topology.PartitionID]*Replica{})
	return h
}

// load creates the stored replicas.
func (h *Host) load(metas []keys.Meta) ([]replicaInit, error) {
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
		r.local.markFound(h.clock.Now())
	}
	return list, nil
}

// expireDedupe drops the old dedupe IDs of all replicas, including replicas that receive no writes.
func (h *Host) expireDedupe() {
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
			r.dedupe.expire(now)
		}
	}
}

// tick makes the replicas record their usage at the start of each second.
func (h *Host) tick() {
	for {
		now := h.opts.Clock.Wall()
		next := time.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now))
		select {
		case <-h.ended:
			next.Stop()
			return
		case <-next.C:
		}
		h.TickUsage(h.opts.Clock.Wall())
	}
}

// checkSpans returns an error if the spans of two replicas overlap, because all replicas share one key space.
func checkSpans(all []*Replica) error {
	slices.SortFunc(all, func(a, b *Replica) int {
		return cmp.Or(cmp.Compare(a.Table(), b.Table()), a.state.Load().span.Begin.Compare(b.state.Load().span.Begin))
	})
	for i, r := range all[min(1, len(all)):] {
		before := all[i]
		if r.Table() == 0 {
			continue // the replica waits for its first snapshot
		}
		if span := before.state.Load().span; before.Table() == r.Table() && span.Overlaps(r.state.Load().span) {
			return fmt.Errorf("partition %d, %s, overlaps partition %d, %s", r.id, r.state.Load().span, before.id, span)
		}
	}
	return nil
}

// Close waits for requests in progress and stops the host's goroutines. It does not close the store.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	for _, r := range h.Replicas() {
		r.requests.drain(h.sim)
	}
	close(h.ended)
	err := h.seqs.close()
	h.tidied.Wait()
	h.machine.close()
	return err
}

// Failed returns the reason why the node rejects all writes, or nil.
func (h *Host) Failed() error { return h.seqs.failed() }

// DedupeEpoch returns the dedupe epoch of the node. The epoch increases whenever a replica of the node starts a new
// dedupe window. Epochs of different processes are never equal. Suppose that a write is first sent after the node has
// reported an epoch. A replica whose dedupe window started at or before this epoch has not applied the write unless the
// window contains the write's ID; see command.Mutation.
func (h *Host) DedupeEpoch() uint64 { return h.dedupeEpoch.Load() }

func (h *Host) micros() int64 { return h.opts.Clock.Wall().UnixMicro() }

// Sweep executes a sweep on the replica that holds the sweep's keys, and waits until the sweep is applied. All keys
// must belong to one replica. logged reports whether the table has a change log.
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
		done := make(command.OutcomeChannel, 1)
		var err error
		if logged {
			err = r.Control().SweepLatched(ctx, sw, done)
		} else {
			err = r.Control().Sweep(sw, done)
		}
		if err != nil {
			return err
		}
		o, err := await(h.sim, waitLimit{ctx: context.Background()}, done)
		return errors.Join(err, o.Err)
	}
	return ErrClosed
}
