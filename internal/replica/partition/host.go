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
	"github.com/ilion-db/ilion/internal/replica/changebuffer"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Options configure a Host. The zero value is ready for use.
type Options struct {
	// Durability determines when unreplicated writes are acknowledged.
	Durability Durability
	// SyncInterval is the interval between syncs in Periodic mode; 10 ms if 0.
	SyncInterval time.Duration
	// GroupMax bounds the writes of a node that wait to be applied and durable; 65536 if 0.
	GroupMax int
	// LatchQueueMax bounds the writes that wait for one partition key; 1024 if 0.
	LatchQueueMax int
	// LatchWait is the time that a write waits for a partition key; 2 s if 0.
	LatchWait time.Duration
	// Transactions holds the limits of one transaction.
	Transactions TransactionBounds
	// Now returns the time for timestamps; time.Now if nil.
	Now func() time.Time
	// DedupeReach is command.DedupeReach if 0. Simulations use a shorter time.
	DedupeReach time.Duration
	// Hot is called at the start of a second when a partition with a throughput limit becomes hot or stops being hot;
	// see usage.Partition.Hot. It may be nil.
	Hot func(r *Replica, hot bool)
	// ChangeBuffer receives the applied entries for an archiver; it may be nil.
	ChangeBuffer *changebuffer.Buffer
	// Log receives messages about programs that panic; slog.Default if nil.
	Log *slog.Logger
	// Cluster makes the replicas members of replica sets. Nil means that each partition has a single replica, on this
	// node. With Cluster, Durability, SyncInterval, and GroupMax are ignored: a write is acknowledged when a quorum has
	// it on disk.
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
	// clock is the clock of leases and of the dedupe window.
	clock raftgroup.Clock
	// budgetClock is the clock of budgets. Every request with a budget reads it.
	budgetClock func() budget.Instant
	throughputs atomic.Pointer[Throughputs]
	programs    atomic.Pointer[Programs]
	batches     atomic.Pointer[Batches]
	asking      atomic.Int32 // queries to batches in flight
	aggregator  atomic.Pointer[Aggregator]
	pushdown    atomic.Int64 // aggregations in progress
	views       atomic.Pointer[Views]
	// sim is nil except in simulations.
	sim *SimHooks
	// dedupeEpoch counts how often replicas have started new dedupe windows; see DedupeEpoch.
	dedupeEpoch atomic.Uint64
	// abstains holds the current AbstainReasons.
	abstains      atomic.Uint32
	readers       sync.Pool // *readMeter
	pendingWrites sync.Pool // *pendingWrite
	// writeSamplesReady is signaled when Load.WriteSamples should be called.
	writeSamplesReady chan struct{}

	// mu serializes changes of replicas, except for the children of splits, which the machine creates. listing
	// serializes all changes. The map is never modified, only replaced. While listing is held, the holder waits only
	// for the disk.
	mu       sync.Mutex
	listing  sync.Mutex
	closed   bool
	ended    chan struct{} // closed with the host
	tidied   sync.WaitGroup
	replicas atomic.Pointer[map[topology.PartitionID]*Replica]
	// retired holds replicas whose spans belong to other replicas now, by ID, as long as the machine may receive
	// entries for them.
	retired sync.Map
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

// expireDedupe drops old dedupe IDs of replicas that receive no writes.
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

// tick makes replicas record their usage once per second, just after the second has begun.
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

// Replica returns the replica of a partition, or nil if it is not here.
func (h *Host) Replica(id topology.PartitionID) *Replica { return (*h.replicas.Load())[id] }

// Replicas returns all replicas, ordered by ID.
func (h *Host) Replicas() []*Replica { return values(*h.replicas.Load()) }

func values(replicas map[topology.PartitionID]*Replica) []*Replica {
	out := make([]*Replica, 0, len(replicas))
	for _, r := range replicas {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Replica) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Len returns the number of replicas.
func (h *Host) Len() int { return len(*h.replicas.Load()) }

// Member returns the ID of the local replica of a partition, or 0 if none exists.
func (h *Host) Member(id topology.PartitionID) topology.ReplicaID {
	if r := h.Replica(id); r != nil {
		return r.Member()
	}
	return 0
}

// IDs returns the IDs of the partitions with a replica here, in ascending order.
func (h *Host) IDs() []topology.PartitionID { return slices.Sorted(maps.Keys(*h.replicas.Load())) }

// TableOf returns the table of a local replica, or 0 if none exists or it waits for its first snapshot.
func (h *Host) TableOf(id topology.PartitionID) uint32 {
	if r := h.Replica(id); r != nil {
		return r.Table()
	}
	return 0
}

// Holds reports whether a local replica holds a part of a span of a table.
func (h *Host) Holds(table uint32, span topology.Span) bool {
	for _, r := range *h.replicas.Load() {
		if s := r.state.Load(); s.keys.Table == table && s.span.Overlaps(span) {
			return true
		}
	}
	return false
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

// Failed returns the reason why the node rejects writes, or nil.
func (h *Host) Failed() error { return h.seqs.failed() }

// NewestStamp returns the highest timestamp that any replica has assigned or applied, in microseconds, or 0 if none
// exists.
func (h *Host) NewestStamp() (newest int64) {
	for _, r := range *h.replicas.Load() {
		newest = max(newest, r.stamps.last.Load())
	}
	return newest
}

// DedupeEpoch returns the dedupe epoch of the node. It increases whenever a replica of the node forgets which writes it
// has applied, as all replicas do when the process starts. Epochs of different processes are never equal. Consider a
// write that is first sent after the node has reported an epoch. It has not been applied by any replica whose dedupe
// window started at or before that epoch, unless the replica remembers it; see command.Mutation.
func (h *Host) DedupeEpoch() uint64 { return h.dedupeEpoch.Load() }

func (h *Host) micros() int64 { return h.opts.Now().UnixMicro() }

// Spans returns the parts of tables that the node's replicas lead and may sweep, ordered by partition ID.
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

// Sweep makes the replica that holds the sweep's keys execute it, and waits. The keys must belong to one replica, like
// those found in one of Spans. logged reports whether their table has a change log.
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
