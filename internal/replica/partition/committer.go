// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Durability determines when an unreplicated write is acknowledged.
type Durability uint8

const (
	// Periodic acknowledges a write when the write is applied. A sync follows within Options.SyncInterval. A crash may
	// lose all writes since the last sync.
	Periodic Durability = iota
	// Synced acknowledges a write after a sync.
	Synced
)

// committer provides the sequencers of a node whose partitions have no other replicas. All sequencers share the log of
// the store. The applier goroutine applies all queued entries as one batch of the store. The syncer goroutine syncs the
// store. In Synced mode, each sync completes all entries that were applied before the sync began.
//
//	propose ── queue ── applier: machine.Apply.., machine.Commit ── group ── syncer: Store.Sync ── Waiter.Done
//
// The applier numbers the batches. Invariant: synced <= committed <= begun <= committed+1.
type committer struct {
	host     *Host
	mode     Durability
	interval time.Duration
	groupMax int64

	waiting atomic.Int64 // number of proposals that are not completed
	begun   atomic.Uint64
	// committed is the last batch that readers can see. synced is the last batch that survives a crash.
	committed, synced atomic.Uint64
	failure           atomic.Pointer[error] // (P4)

	mu     sync.Mutex
	queue  []proposal // proposals that are not applied
	bytes  int64      // size of the entries in queue
	idle   bool       // the applier is asleep
	group  []proposal // applied entries that are not durable, and waiting readers
	closed bool
	// unfinished is true, in Synced mode, from the application of a batch until the syncer has no more work. During
	// this time, the applier collects blind writes for the next batch. urgent is true if the queue contains an entry
	// that holds latches, because other writers wait for this entry.
	unfinished, urgent bool

	wake, sync      chan struct{}
	stop            chan struct{} // ends pauses
	applier, syncer chan struct{} // closed when the goroutine has ended

	// unsynced is nil in Periodic mode, because readers may then see writes that a crash can undo.
	unsynced *unsynced
	one      [1][]byte
	results  []any
}

// proposal is either an entry to apply or a waiter for a durable batch. For a waiter, replica is nil and Index is the
// number of the batch.
type proposal struct {
	replica *Replica
	entry   []byte
	waiter  raftgroup.Waiter
	outcome raftgroup.Outcome
}

const (
	// queueBytesMax is the approximate maximum size of all entries in the queue. batchBytesMax is the approximate
	// maximum size of the entries in one batch.
	queueBytesMax = 64 << 20
	batchBytesMax = 1 << 20
)

func newCommitter(h *Host) *committer {
	o := &h.opts
	c := &committer{host: h, mode: o.Durability, interval: o.SyncInterval, groupMax: int64(o.GroupMax),
		wake: make(chan struct{}, 1), sync: make(chan struct{}, 1), stop: make(chan struct{}),
		applier: make(chan struct{}), syncer: make(chan struct{})}
	if c.mode == Synced {
		c.unsynced = newUnsynced()
		h.machine.unsynced = c.unsynced
	}
	go c.apply()
	go c.makeDurable()
	return c
}

// propose queues an entry or returns an error. After a success, the committer calls the waiter of the entry once.
func (c *committer) propose(p proposal) error {
	if err := c.failed(); err != nil {
		return err
	}
	if c.waiting.Add(1) > c.groupMax {
		c.waiting.Add(-1)
		return &dberr.Overloaded{Message: "Too many writes are waiting for the disk"}
	}
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		c.waiting.Add(-1)
		return ErrClosed
	case c.bytes > queueBytesMax:
		c.mu.Unlock()
		c.waiting.Add(-1)
		return &dberr.Overloaded{Message: "Too many bytes are waiting for the disk"}
	}
	c.queue = append(c.queue, p)
	c.bytes += int64(len(p.entry))
	if _, blind := p.waiter.(*pendingWrite); !blind {
		c.urgent = true
	}
	c.unlock()
	return nil
}

// unlock releases mu. It wakes the applier if the applier is asleep and a batch is ready.
func (c *committer) unlock() {
	wake := c.idle && c.ready()
	if wake {
		c.idle = false
	}
	c.mu.Unlock()
	if wake {
		poke(c.wake)
	}
}

// ready reports whether the applier should apply the next batch now. The caller must hold mu.
func (c *committer) ready() bool { return len(c.queue) > 0 && (!c.unfinished || c.urgent || c.closed) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// failed returns the reason why the committer rejects entries, or nil.
func (c *committer) failed() error {
	if p := c.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops the committer permanently. It stores only the first cause.
func (c *committer) fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrStopped, cause)
	c.failure.CompareAndSwap(nil, &err)
	return c.failed()
}

// apply runs the applier.
func (c *committer) apply() {
	defer close(c.applier)
	var spare []proposal
	for {
		ps := c.awaitProposals(spare)
		if ps == nil {
			return
		}
		for rest := ps; len(rest) > 0; {
			n := batchLen(rest)
			c.commit(rest[:n])
			rest = rest[n:]
		}
		clear(ps)
		if spare = ps[:0]; cap(ps) > queueKept {
			spare = nil
		}
	}
}

// queueKept is the maximum capacity of a proposal list whose memory is reused.
const queueKept = 16 << 10

// batchLen returns the number of entries in the next batch.
func batchLen(ps []proposal) int {
	size := 0
	for i := range ps {
		size += len(ps[i].entry)
		if size >= batchBytesMax {
			return i + 1
		}
	}
	return len(ps)
}

// awaitProposals waits for proposals. It returns nil if the committer is closed and the queue is empty.
func (c *committer) awaitProposals(spare []proposal) []proposal {
	for {
		c.mu.Lock()
		if c.ready() {
			break
		}
		over := c.closed
		c.idle = !over
		c.mu.Unlock()
		if over {
			return nil
		}
		<-c.wake
		runtime.Gosched() // let other goroutines add proposals to the batch
	}
	ps := c.queue
	c.queue, c.bytes, c.urgent = spare, 0, false
	c.mu.Unlock()
	return ps
}

// commit applies entries in one batch of the store.
func (c *committer) commit(ps []proposal) {
	err := c.failed()
	number := c.begun.Add(1)
	if err == nil {
		if err = c.applyAll(ps, number); err != nil {
			err = c.fail(err)
		}
	}
	if err != nil {
		for i := range ps {
			ps[i].waiter.Done(raftgroup.Outcome{Err: err})
		}
		c.waiting.Add(-int64(len(ps)))
		poke(c.sync) // the syncer also notifies waiting readers
		return
	}
	c.committed.Store(number)
	if invariant.Enabled {
		synced := c.synced.Load()
		invariant.Check(synced <= number, "P5: batch %d is committed after %d was synced", number, synced)
	}
	if c.mode == Periodic {
		for i := range ps {
			ps[i].waiter.Done(ps[i].outcome)
		}
		c.waiting.Add(-int64(len(ps)))
		poke(c.sync)
		return
	}
	for i := range ps {
		if w, ok := ps[i].waiter.(appliedNotifier); ok {
			w.applied()
		}
	}
	c.mu.Lock()
	c.group = append(c.group, ps...)
	c.unfinished = true
	c.mu.Unlock()
	poke(c.sync)
}

func (c *committer) applyAll(ps []proposal, number uint64) error {
	m := c.host.machine
	if c.unsynced != nil {
		c.unsynced.number = number
	}
	for i := range ps {
		p := &ps[i]
		if p.replica == nil {
			continue // this proposal is only a waiter
		}
		r := p.replica
		o := &p.outcome
		if r.dead.Load() {
			o.Result = r.wrongRange()
			continue
		}
		o.Index, o.Term = r.ahead.applied+1, r.ahead.term
		var err error
		c.one[0] = p.entry
		if c.results, err = m.Apply(uint64(r.id), o.Index, o.Term, c.one[:], c.results[:0]); err != nil {
			return err
		}
		o.Result = c.results[0]
	}
	return m.Commit()
}

// load implements sequencers.
func (c *committer) load(metas []keys.Meta) (list []replicaInit, err error) {
	for i := range metas {
		list = append(list, replicaInitOf(&metas[i]))
	}
	return list, nil
}

func replicaInitOf(meta *keys.Meta) replicaInit {
	b := replicaInit{id: topology.PartitionID(meta.Partition), meta: meta}
	if len(meta.Voters) > 0 {
		b.replica = topology.ReplicaID(meta.Voters[0].Replica)
	}
	return b
}

func (c *committer) initialReplicas(ps []*topology.Partition) (list []replicaInit) {
	for _, p := range ps {
		var set *topology.ReplicaSet
		if len(p.Sets) == 1 {
			set = &p.Sets[0]
		}
		meta := initialMeta(p, set, c.host.store.Level())
		list = append(list, replicaInitOf(&meta))
	}
	return list
}

// open implements sequencers.
func (c *committer) open([]replicaInit) error { return c.failed() }

// openChild implements sequencers.
func (c *committer) openChild(*replicaInit, topology.NodeID) {}

// discard implements sequencers. Later entries of the replica are rejected because the replica is dead.
func (c *committer) discard(r *Replica) { c.host.retired.Delete(r.id) }

// stopSequencers implements sequencers. When it returns, all entries in progress have been applied.
func (c *committer) stopSequencers([]*Replica) (finish func() error, err error) {
	done := make(outcomeWaiter, 1)
	if err := c.propose(proposal{waiter: done}); err != nil {
		return nil, err
	}
	if o := <-done; o.Err != nil {
		return nil, o.Err
	}
	return func() error { return nil }, nil
}

// close applies and syncs the remaining entries and stops the goroutines.
func (c *committer) close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	close(c.stop)
	poke(c.wake)
	<-c.applier
	<-c.syncer
	return c.failed()
}
