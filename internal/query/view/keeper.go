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
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

const (
	// queueMax bounds the writes that wait for a deliverer; what finds it full is found by the next round.
	queueMax = 4096
	// flightsMax bounds the deliveries of a node that are under way.
	flightsMax = 1024
	// patience is how long a write waits for its views.
	patience = 100 * time.Millisecond
	// beat is how often it is looked who has waited long enough, and hints are removed that were followed.
	beat = 10 * time.Millisecond
	// settleMax is how many hints are removed at once.
	settleMax = 512
	// roundEvery is the time between two rounds over what is due, and lateAfter the age from which on a round takes a
	// hint for one that nobody is following.
	roundEvery = time.Second
	lateAfter  = time.Second
	// chunkRows is how many rows of a range are followed at a time.
	chunkRows = 500
)

// Coordinator is where changes of views go.
type Coordinator interface {
	Write(ctx context.Context, ms []command.Mutation, o coordinator.WriteOptions, done command.Completion)
}

// Options are the parts that a Keeper works with. All but Workers and Sched are needed.
type Options struct {
	Coordinator Coordinator
	// Schema is the schema by which statements are planned on this node now.
	Schema func() *schema.Schema
	// Replicas are those of this node.
	Replicas func() []*partition.Replica
	// Now is the clock of expiry and of stamps.
	Now func() time.Time
	Log *slog.Logger
	// Workers is how many writes are followed at a time, twice the number of processors if 0.
	Workers int
	// Sched is what the keeper tells time and waits by, nil outside simulations.
	Sched *sched.Scheduler
}

// Keeper has the views of tables follow what is written to partitions that this node leads. It is a partition.Views,
// and safe for concurrent use.
type Keeper struct {
	o     Options
	queue chan *task
	// flights holds a token for each delivery that may begin.
	flights chan struct{}
	// stir has a message when something has begun to wait, or to be removed, since Run last found nothing.
	stir  chan struct{}
	known atomic.Pointer[known]

	mu      sync.Mutex
	closed  bool
	waiting []*task
	settled map[*partition.Replica][][]byte
	stats   Stats
}

// Stats are counts since the start of a Keeper.
type Stats struct {
	// Followed are rows that were brought in step, Failed those that were not, which are tried again; Unawaited are
	// writes that were acknowledged before their views had followed.
	Followed, Failed, Unawaited uint64
}

// New returns a Keeper; Run has it work.
func New(o Options) *Keeper {
	if o.Workers == 0 {
		o.Workers = 2 * runtime.GOMAXPROCS(0)
	}
	k := &Keeper{o: o, queue: make(chan *task, queueMax), flights: make(chan struct{}, flightsMax),
		stir: make(chan struct{}, 1), settled: map[*partition.Replica][][]byte{}}
	for range flightsMax {
		k.flights <- struct{}{}
	}
	return k
}

// task is a write whose views are to follow.
type task struct {
	replica *partition.Replica
	hints   [][]byte
	// stamp is that of all hints, 0 where each has to be looked up.
	stamp int64
	then  func()
	since time.Time
	told  atomic.Bool
}

// tell calls then once.
func (t *task) tell() (first bool) {
	if t.then == nil || t.told.Swap(true) {
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

// Stats are the counts as they are now.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stats
}

// Run works until ctx ends. Then nobody waits any more.
func (k *Keeper) Run(ctx context.Context) {
	all := sched.Group{Scheduler: k.o.Sched}
	for range k.o.Workers {
		all.Go(func() { k.work(ctx) })
	}
	all.Go(func() { k.rounds(ctx) })
	for ctx.Err() == nil {
		if _, err := sched.Await(k.o.Sched, ctx, k.stir, 0); err != nil {
			break
		}
		k.beats(ctx)
	}
	k.release(true)
	k.settle(0)
	all.Wait()
	k.release(true)
}

// wake has Run beat. A node without views sleeps.
func (k *Keeper) wake() {
	select {
	case k.stir <- struct{}{}:
	default:
	}
}

// beats releases and settles until nothing is left to do.
func (k *Keeper) beats(ctx context.Context) {
	for k.o.Sched.Sleep(ctx, beat) == nil {
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

// release tells those who have waited long enough, or all.
func (k *Keeper) release(all bool) {
	k.mu.Lock()
	k.closed = k.closed || all
	var late []*task
	n := 0
	now := k.o.Sched.Now()
	for _, t := range k.waiting {
		switch {
		case t.told.Load():
		case all || now.Sub(t.since) >= patience:
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
		if t.tell() {
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

// done notes hints that were followed; they are removed with others.
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
	k.o.Log.LogAttrs(context.Background(), slog.LevelDebug, "view did not follow and is tried again",
		slog.String("error", err.Error()))
}

// settle removes hints of the replicas that have at least so many. What is refused, because the partition was split or
// is led elsewhere now, stays and is followed again.
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
			_ = r.Sweep(&command.Sweep{Table: r.Table(), Keys: list[:n]}, ignored{})
			list = list[n:]
		}
	}
}

// ignored is a completion that nobody waits for.
type ignored struct{}

// Done implements command.Completion.
func (ignored) Done(error) {}

// known are the views of a schema.
type known struct {
	schema  *schema.Schema
	byIndex map[uint32]*View
	byTable map[uint32][]*View
}

// views are those of the present schema.
func (k *Keeper) views() *known {
	s := k.o.Schema()
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
				k.o.Log.LogAttrs(context.Background(), slog.LevelError, "a view cannot be kept",
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
