// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const (
	// queueMax is the maximum number of queued writes. The next round processes writes that exceed the limit.
	queueMax = 4096
	// deliveriesMax is the maximum number of concurrent deliveries on a node.
	deliveriesMax = 1024
	// waitMax is the maximum time that a write waits for its views.
	waitMax = 100 * time.Millisecond
	// settleInterval is the interval at which expired waits end and applied hints are removed.
	settleInterval = 10 * time.Millisecond
	// settleMax is the maximum number of hints that are removed in one mutation.
	settleMax = 512
	// roundEvery is the interval between two rounds. A round searches for due hints. If a hint is older than lateAfter,
	// a round assumes that no worker is processing the hint.
	roundEvery = time.Second
	lateAfter  = time.Second
	// chunkRows is the number of rows of a range that are processed together.
	chunkRows = 500
)

// Coordinator writes changes to views.
type Coordinator interface {
	Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions, done command.Completion)
}

// Options configures a Keeper. All fields except Workers and Sched are required.
type Options struct {
	Coordinator Coordinator
	Catalog     *catalog.Catalog
	Host        *partition.Host
	// Clock determines expiry and stamps.
	Clock sched.Clock
	Log   *slog.Logger
	// Workers is the number of writes that are processed concurrently. The default is twice the number of processors.
	Workers int
	// Sched is the scheduler of a simulation, or nil.
	Sched *sched.Scheduler
}

// Keeper updates views after writes to partitions that this node leads. It implements partition.Views and is safe for
// concurrent use.
type Keeper struct {
	o     Options
	queue chan *task
	// deliverySlots holds a token for each available delivery slot.
	deliverySlots chan struct{}
	// wakeups notifies Run that a write is waiting or a hint can be removed.
	wakeups chan struct{}
	known   atomic.Pointer[known]

	mu      sync.Mutex
	closed  bool
	waiting []*task
	settled map[*partition.Replica][][]byte
	stats   Stats
}

// Stats counts events since the start of a Keeper.
type Stats struct {
	// Followed counts updated rows. Failed counts failed updates, which are retried. Unawaited counts writes that were
	// acknowledged before their views were updated.
	Followed, Failed, Unawaited uint64
}

// New returns a Keeper. The caller must call Run to start the Keeper.
func New(o Options) *Keeper {
	if o.Workers == 0 {
		o.Workers = 2 * runtime.GOMAXPROCS(0)
	}
	k := &Keeper{o: o, queue: make(chan *task, queueMax), deliverySlots: make(chan struct{}, deliveriesMax),
		wakeups: make(chan struct{}, 1), settled: map[*partition.Replica][][]byte{}}
	for range deliveriesMax {
		k.deliverySlots <- struct{}{}
	}
	return k
}

// task is a write whose views must be updated.
type task struct {
	replica *partition.Replica
	hints   [][]byte
	// stamp is the stamp of all hints. If stamp is 0, the Keeper must read the hints.
	stamp  int64
	then   func()
	since  time.Time
	result atomic.Bool
}

// finish calls then exactly once.
func (t *task) finish() (first bool) {
	if t.then == nil || t.result.Swap(true) {
		return false
	}
	t.then()
	return true
}

// Follow implements partition.Views.
func (k *Keeper) Follow(r *partition.Replica, hints [][]byte, stamp int64, then func()) {
	t := &task{replica: r, hints: hints, stamp: stamp, then: then, since: k.o.Sched.Now()}
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		then()
		return
	}
	select {
	case k.queue <- t:
		k.waiting = append(k.waiting, t)
		k.mu.Unlock()
		k.wake()
	default:
		k.stats.Unawaited++
		k.mu.Unlock()
		then()
	}
}

// Stats returns the current counts.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stats
}

// Run processes writes until ctx ends. Then it releases all waiting writes.
func (k *Keeper) Run(ctx context.Context) {
	all := sched.Group{Scheduler: k.o.Sched}
	for range k.o.Workers {
		all.Go(func() { k.work(ctx) })
	}
	all.Go(func() { k.rounds(ctx) })
	for ctx.Err() == nil {
		if _, err := sched.Await(k.o.Sched, ctx, k.wakeups, 0); err != nil {
			break
		}
		k.settleLoop(ctx)
	}
	k.release(true)
	k.settle(0)
	all.Wait()
	k.release(true)
}

// wake starts the periodic work of Run. A node without views has no periodic work.
func (k *Keeper) wake() {
	select {
	case k.wakeups <- struct{}{}:
	default:
	}
}

// settleLoop releases writes and settles hints until no work remains.
func (k *Keeper) settleLoop(ctx context.Context) {
	for k.o.Sched.Sleep(ctx, settleInterval) == nil {
		k.release(false)
		k.settle(0)
		k.mu.Lock()
		rests := len(k.waiting) == 0 && len(k.settled) == 0
		k.mu.Unlock()
		if rests {
			return
		}
	}
}

// release acknowledges writes that have waited for waitMax. If all is true, it acknowledges all writes.
func (k *Keeper) release(all bool) {
	k.mu.Lock()
	k.closed = k.closed || all
	var late []*task
	n := 0
	now := k.o.Sched.Now()
	for _, t := range k.waiting {
		switch {
		case t.result.Load():
		case all || now.Sub(t.since) >= waitMax:
			late = append(late, t)
		default:
			k.waiting[n] = t
			n++
		}
	}
	clear(k.waiting[n:])
	k.waiting = k.waiting[:n]
	k.mu.Unlock()
	for _, t := range late {
		if t.finish() {
			k.mu.Lock()
			k.stats.Unawaited++
			k.mu.Unlock()
		}
	}
}

func (k *Keeper) work(ctx context.Context) {
	for {
		t, err := sched.Await(k.o.Sched, ctx, k.queue, 0)
		if err != nil {
			return
		}
		k.follow(ctx, t)
	}
}

// done records applied hints. The hints are removed in batches.
func (k *Keeper) done(r *partition.Replica, rows int, hints [][]byte) {
	k.mu.Lock()
	k.stats.Followed += uint64(rows)
	k.settled[r] = append(k.settled[r], hints...)
	full := len(k.settled[r]) >= settleMax
	k.mu.Unlock()
	k.wake()
	if full {
		k.settle(settleMax)
	}
}

func (k *Keeper) failed(rows int, err error) {
	k.mu.Lock()
	k.stats.Failed += uint64(rows)
	k.mu.Unlock()
	k.o.Log.LogAttrs(context.Background(), slog.LevelDebug, "view update failed; retrying",
		slog.String("error", err.Error()))
}

// settle removes the hints of replicas that have at least the given number of applied hints. A removal may be rejected
// because the partition has been split or the leader has changed. In this case, the hints remain and are processed
// again.
func (k *Keeper) settle(least int) {
	k.mu.Lock()
	var all []*partition.Replica
	lists := map[*partition.Replica][][]byte{}
	for r, list := range k.settled {
		if len(list) >= max(least, 1) {
			all, lists[r] = append(all, r), list
			delete(k.settled, r)
		}
	}
	k.mu.Unlock()
	slices.SortFunc(all, func(a, b *partition.Replica) int { return cmp.Compare(a.ID(), b.ID()) })
	for _, r := range all {
		for list := lists[r]; len(list) > 0; {
			n := min(len(list), settleMax)
			_ = r.Control().Sweep(&command.Sweep{Table: r.Table(), Keys: list[:n]}, ignored{})
			list = list[n:]
		}
	}
}

// ignored is a completion that discards the result.
type ignored struct{}

// Done implements command.Completion.
func (ignored) Done(command.Outcome) {}

// known holds the views of a schema.
type known struct {
	schema  *schema.Schema
	byIndex map[uint32]*View
	byTable map[uint32][]*View
}

// views returns the views of the current schema.
func (k *Keeper) views() *known {
	s := k.o.Catalog.Snapshot()
	if have := k.known.Load(); have != nil && have.schema == s {
		return have
	}
	out := &known{schema: s, byIndex: map[uint32]*View{}, byTable: map[uint32][]*View{}}
	for ks := range s.All() {
		if ks.Virtual {
			continue
		}
		for _, t := range ks.Tables {
			list, err := Of(ks, t)
			if err != nil {
				k.o.Log.LogAttrs(context.Background(), slog.LevelError, "materialized view disabled",
					slog.String("error", err.Error()))
			}
			for _, v := range list {
				out.byIndex[v.Index] = v
				out.byTable[t.ID] = append(out.byTable[t.ID], v)
			}
		}
	}
	k.known.Store(out)
	return out
}
