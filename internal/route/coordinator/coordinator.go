// SPDX-License-Identifier: Apache-2.0

// Package coordinator routes commands to the replicas that hold their data. It finds the physical partition of a key or
// a range and sends the command to a replica. If the topology has changed, it sends the command to another replica.
//
// Guarantees:
//
//   - (O1) A range read visits every intersecting logical partition once and in ring order, regardless of the number of
//     physical partitions.
//   - (O2) A client never receives an error because a partition has moved. The client can only receive a timeout.
//   - (O3) An atomic batch is applied completely or not at all.
//   - (O4) At most Options.RequestsMax requests are in flight.
//   - (O5) If a write may have been applied, the error never states that the write was not applied.
//
// The package does not depend on CQL and evaluates no conditions. In a single-node cluster, all consistency levels are
// equivalent, and reads return every previously acknowledged write. The session checks whether a statement may use a
// consistency level.
//
// Start reading at Coordinator, then read read.go and write.go.
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

// Options configure a Coordinator. The zero value selects the defaults.
type Options struct {
	// RequestsMax is the maximum number of requests in flight. The default is 16384.
	RequestsMax int
	// ReadTimeout is the timeout of a read. The default is 5 s.
	ReadTimeout time.Duration
	// WriteTimeout is the timeout of a write, including the time that the write waits for other writes. The default is
	// 2 s.
	WriteTimeout time.Duration
	// ThrottledWait is the maximum time that a request waits if its partition has exceeded its throughput. If
	// ThrottledWait is 0, the request is rejected immediately. ThrottledMax is the maximum number of waiting requests.
	// The default is 1024. ThrottledReadsMax is the maximum number of waiting reads, each of which blocks a goroutine.
	// The default is 8. A request never waits longer than nine tenths of its timeout.
	ThrottledWait                   time.Duration
	ThrottledMax, ThrottledReadsMax int
	// TruncateTimeout is the timeout of a TRUNCATE. The default is 60 s.
	TruncateTimeout time.Duration
	// Tables returns table names of the form ks.t for traces. If Tables is nil, traces contain the table ID.
	Tables interface {
		TableName(id uint32) string
	}
	// Cluster provides access to the other nodes. If Cluster is the zero value, the cluster has no other nodes.
	Cluster *Cluster
	// Clock must differ from the clocks of other nodes by less than a second. If Clock is nil, the clock of Scheduler
	// is used.
	Clock sched.Clock
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
	if o.Clock == nil {
		o.Clock = o.Scheduler
	}
	return o
}

// Replica is a replica on any node. *partition.Replica is a local replica.
type Replica interface {
	Read(ctx context.Context, c *command.Read, v command.Visitor) error
	Write(ctx context.Context, m *command.Mutation, done command.Completion) error
	ConditionalWrite(ctx context.Context, c *command.Conditional, done command.Completion) error
	Truncate(ctx context.Context, x partition.Extent, all partition.Truncation, done command.Completion) error
}

// Coordinator routes the commands of a node. It is safe for concurrent use.
type Coordinator struct {
	host  *partition.Host
	opts  Options
	sched *sched.Scheduler

	view       atomic.Pointer[view]
	viewMu     sync.Mutex // serializes calls of SetTopology
	writes     sync.Pool  // contains *write
	readRelays sync.Pool  // contains *readRelay

	cluster       *cluster
	writeRequests sync.Pool // contains *writeRequest
	deadlines     deadlineList
	tasks         tasks
	queues        queues
	debts         debts

	inFlight atomic.Int64
	stats    stats
}

// view holds a topology and a channel that is closed when a newer topology is available.
type view struct {
	snapshot *topology.Snapshot
	changed  chan struct{}
	routes   map[topology.PartitionID]*route
}

type stats struct {
	reads, writes, conditionalWrites, touched, retries, overloaded, forwarded, misrouted atomic.Uint64
	reasons                                                                              [reasonCount]atomic.Uint64
	readRestarts, batches, replayed                                                      atomic.Uint64
}

// Stats holds counters since the creation of the Coordinator.
type Stats struct {
	Reads, Writes, ConditionalWrites uint64
	// Touched is the total number of physical partitions accessed by requests. A request for one partition key accesses
	// one physical partition.
	Touched uint64
	// Retries counts requests that were retried because the topology had changed. Overloaded counts requests rejected
	// because of Options.RequestsMax.
	Retries, Overloaded uint64
	// Forwarded counts the requests sent to other nodes. Misrouted counts forwarded requests for partitions that have
	// no replica on this node.
	Forwarded, Misrouted uint64
	RetryReasons         RetryReasons
	// ReadRestarts counts the reads that ended with ErrRepeat. Batches counts the atomic batches of several physical
	// partitions. Replayed counts the batches that this node has replayed.
	ReadRestarts, Batches, Replayed uint64
	// InFlight is the number of requests in flight.
	InFlight int64
}

// New returns a coordinator for the replicas of a host.
func New(host *partition.Host, snapshot *topology.Snapshot, o Options) *Coordinator {
	c := &Coordinator{host: host, opts: o.withDefaults(), sched: o.Scheduler}
	c.queues.max, c.queues.maxReads = c.opts.ThrottledMax, c.opts.ThrottledReadsMax
	c.tasks.all.Scheduler, c.deadlines.sched = o.Scheduler, o.Scheduler
	c.tasks.ctx, c.tasks.cancel = context.WithCancel(context.Background())
	c.writes.New = func() any { return &write{c: c} }
	c.readRelays.New = func() any { return &readRelay{sched: c.sched} }
	c.writeRequests.New = func() any { return new(writeRequest) }
	c.cluster = newCluster(o.Cluster, host, o.Scheduler)
	c.view.Store(&view{snapshot: snapshot, changed: make(chan struct{}), routes: routesOf(snapshot, nil)})
	return c
}

// Topology returns the topology used for routing.
func (c *Coordinator) Topology() *topology.Snapshot { return c.view.Load().snapshot }

// tableName returns the name of a table in traces.
func (c *Coordinator) tableName(id uint32) string {
	if c.opts.Tables == nil {
		return strconv.FormatUint(uint64(id), 10)
	}
	return c.opts.Tables.TableName(id)
}

// SetTopology replaces the topology unless the current topology is newer. The replicas of new partitions must be open
// before the call.
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
		Reads: s.reads.Load(), Writes: s.writes.Load(), ConditionalWrites: s.conditionalWrites.Load(),
		Touched: s.touched.Load(),
		Retries: s.retries.Load(), Overloaded: s.overloaded.Load(), InFlight: c.inFlight.Load(),
		Forwarded: s.forwarded.Load(), Misrouted: s.misrouted.Load(), RetryReasons: s.retryReasons(),
		ReadRestarts: s.readRestarts.Load(), Batches: s.batches.Load(), Replayed: s.replayed.Load(),
	}
}

// admit counts a request. The caller must call leave after each successful call of admit.
func (c *Coordinator) admit() error {
	if c.inFlight.Add(1) <= int64(c.opts.RequestsMax) {
		return nil
	}
	c.leave()
	c.stats.overloaded.Add(1)
	return &dberr.Overloaded{Message: "Too many requests are in flight at this coordinator"}
}

func (c *Coordinator) leave() {
	n := c.inFlight.Add(-1)
	invariant.Check(n >= 0, "O4: %d requests are in flight", n)
}

// These constants define the delay before a retry.
const (
	retryPauseMin = time.Millisecond
	retryPauseMax = 50 * time.Millisecond
)
