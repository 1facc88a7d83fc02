// SPDX-License-Identifier: Apache-2.0

// Package coordinator sends commands where their data is: it finds the physical partition of a key or of a range, asks
// a replica of it, and asks again elsewhere when the map has changed meanwhile.
//
// Guarantees: (O1) a read of a range sees every partition it intersects once, in ring order, whatever the number of
// physical partitions; (O2) a client never sees that a partition has moved, only that a deadline has passed; (O3) an
// atomic batch is applied as a whole or not at all; (O4) no more requests than Options.RequestsMax are under way; (O5)
// a write that may have been carried out is not answered as one that was not. It knows nothing of CQL and evaluates no
// condition. Start at Coordinator, then read.go and write.go.
//
// Consistency levels: on a node that stands alone the one replica serves all levels alike, and does more than any of
// them asks for: reads see every write acknowledged before. Whether a level is allowed for a statement is the session's
// business.
package coordinator

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Options of a Coordinator. The zero value is ready for use.
type Options struct {
	// RequestsMax bounds the requests under way in total; 16384 if 0.
	RequestsMax int
	// ReadTimeout is how long a read may take; 5 s if 0.
	ReadTimeout time.Duration
	// WriteTimeout is how long a write may wait for its turn and for the map; 2 s if 0.
	WriteTimeout time.Duration
	// ThrottledWait is how long a request waits at most where its partition has spent what it may take, before it is
	// refused, and ThrottledMax how many may at a time, ThrottledReadsMax how many reads among them, each of which
	// keeps a goroutine waiting; 0: none waits, 1024, and 8. Nobody waits longer than nine tenths of ReadTimeout or
	// WriteTimeout.
	ThrottledWait                   time.Duration
	ThrottledMax, ThrottledReadsMax int
	// TruncateTimeout is how long a TRUNCATE may take; 60 s if 0.
	TruncateTimeout time.Duration
	// TableName names a table in traces, as ks.t; its number is shown if nil.
	TableName func(table uint32) string
	// Cluster is what there is beside this node; nil is nothing.
	Cluster *Cluster
	// Now is the wall clock as far as the clocks of the other nodes allow, to within a second of theirs; that of
	// Scheduler if nil.
	Now func() time.Time
	// Scheduler is nil outside simulations.
	Scheduler *sched.Scheduler
}

func (o Options) withDefaults() Options {
	if o.RequestsMax == 0 {
		o.RequestsMax = 1 << 14
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 5 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 2 * time.Second
	}
	if o.TruncateTimeout == 0 {
		o.TruncateTimeout = time.Minute
	}
	if o.ThrottledMax == 0 {
		o.ThrottledMax = 1024
	}
	if o.ThrottledReadsMax == 0 {
		o.ThrottledReadsMax = 8
	}
	if o.Now == nil {
		o.Now = o.Scheduler.Wall
	}
	if o.TableName == nil {
		o.TableName = func(table uint32) string { return strconv.FormatUint(uint64(table), 10) }
	}
	return o
}

// Replica is what the coordinator asks of a replica, wherever it is. *partition.Replica is one on this node.
type Replica interface {
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	Write(ctx context.Context, m *command.Mutation, done command.Completion) error
	Decide(ctx context.Context, c *command.Conditional, done command.DecisionCompletion) error
	Truncate(ctx context.Context, x partition.Extent, all partition.Truncation, done command.Completion) error
}

// Coordinator routes the commands of a node. It is safe for concurrent use.
type Coordinator struct {
	host  *partition.Host
	opts  Options
	sched *sched.Scheduler

	view    atomic.Pointer[view]
	viewMu  sync.Mutex // orders SetTopology
	writes  sync.Pool  // *write
	decides sync.Pool  // *decide
	relays  sync.Pool  // *relay

	cluster *cluster
	sends   sync.Pool // *send
	watch   watch
	tasks   tasks
	queues  queues
	debts   debts

	underWay atomic.Int64
	stats    stats
}

// view is the map and a channel that is closed when a newer one is there.
type view struct {
	snapshot *topology.Snapshot
	changed  chan struct{}
	routes   map[topology.PartitionID]*route
}

type stats struct {
	reads, writes, decisions, touched, retries, overloaded, forwarded, astray atomic.Uint64
	reasons                                                                   [reasonCount]atomic.Uint64
	repeated, batches, replayed                                               atomic.Uint64
}

// Stats counts what a Coordinator did since it was made.
type Stats struct {
	Reads, Writes, Decisions uint64
	// Touched is the number of physical partitions that all of them asked; a request for one partition key asks one.
	Touched uint64
	// Retries are requests repeated because the map had changed, Overloaded those refused at Options.RequestsMax.
	Retries, Overloaded uint64
	// Forwarded is the number of requests sent to other nodes, Astray of those that had no replica here to come to.
	Forwarded, Astray uint64
	// RetryReasons counts, in a cluster, why requests were repeated.
	RetryReasons RetryReasons
	// Repeated counts the reads that ended with ErrRepeat, Batches the atomic batches over several physical partitions,
	// Replayed those of them that were finished for a coordinator that was gone.
	Repeated, Batches, Replayed uint64
	// UnderWay is the number of requests not yet answered.
	UnderWay int64
}

// New makes a coordinator over the replicas of a host.
func New(host *partition.Host, snapshot *topology.Snapshot, o Options) *Coordinator {
	c := &Coordinator{host: host, opts: o.withDefaults(), sched: o.Scheduler}
	c.queues.most, c.queues.mostReads = c.opts.ThrottledMax, c.opts.ThrottledReadsMax
	c.tasks.all.Scheduler, c.watch.sched = o.Scheduler, o.Scheduler
	c.tasks.ctx, c.tasks.cancel = context.WithCancel(context.Background())
	c.writes.New = func() any { return &write{c: c} }
	c.decides.New = func() any { return &decide{c: c} }
	c.relays.New = func() any { return &relay{sched: c.sched} }
	c.sends.New = func() any { return new(send) }
	c.cluster = newCluster(o.Cluster, host, o.Scheduler)
	c.view.Store(&view{snapshot: snapshot, changed: make(chan struct{}), routes: routesOf(snapshot, nil)})
	return c
}

// Topology is the map that requests are routed by.
func (c *Coordinator) Topology() *topology.Snapshot { return c.view.Load().snapshot }

// SetTopology replaces the map, unless the one in use is newer. The replicas of new partitions must be open already.
func (c *Coordinator) SetTopology(s *topology.Snapshot) {
	c.viewMu.Lock()
	defer c.viewMu.Unlock()
	old := c.view.Load()
	if old.snapshot.Version() >= s.Version() {
		return
	}
	c.view.Store(&view{snapshot: s, changed: make(chan struct{}), routes: routesOf(s, old.routes)})
	close(old.changed)
}

// Stats returns the counters.
func (c *Coordinator) Stats() Stats {
	s := &c.stats
	return Stats{
		Reads: s.reads.Load(), Writes: s.writes.Load(), Decisions: s.decisions.Load(), Touched: s.touched.Load(),
		Retries: s.retries.Load(), Overloaded: s.overloaded.Load(), UnderWay: c.underWay.Load(),
		Forwarded: s.forwarded.Load(), Astray: s.astray.Load(), RetryReasons: s.retryReasons(),
		Repeated: s.repeated.Load(), Batches: s.batches.Load(), Replayed: s.replayed.Load(),
	}
}

// admit counts a request in; each success is followed by leave.
func (c *Coordinator) admit() error {
	if c.underWay.Add(1) <= int64(c.opts.RequestsMax) {
		return nil
	}
	c.leave()
	c.stats.overloaded.Add(1)
	return &dberr.Overloaded{Message: "Too many requests are under way on this node"}
}

func (c *Coordinator) leave() {
	n := c.underWay.Add(-1)
	invariant.Check(n >= 0, "O4: %d requests are under way", n)
}

// The pauses between attempts when the map does not change.
const (
	retryPauseMin = time.Millisecond
	retryPauseMax = 50 * time.Millisecond
)
