// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// Durability says when a write is acknowledged.
type Durability uint8

const (
	// Periodic acknowledges a write when it is applied; a sync follows within Options.SyncInterval. A crash may lose that much.
	Periodic Durability = iota
	// Synced acknowledges a write after a sync. While a sync is running the next group gathers.
	Synced
)

// committer gives the batches of a node that stands alone their order, which is the store's, and one goroutine makes what was applied
// durable and completes it, all of a node's together: one sync for everybody who was applied before it began. In a cluster
// the logs of the replica sets are in its place: see member.
type committer struct {
	store    Store
	mode     Durability
	interval time.Duration
	groupMax int64

	waiting atomic.Int64 // admitted and not yet completed
	mu      sync.Mutex
	group   []command.Completion // applied, waiting for the next sync
	dirty   atomic.Bool          // Periodic: something was applied since the last sync began
	wake    chan struct{}
	stop    chan struct{}
	done    chan struct{}
	failure atomic.Pointer[error] // (P4)
	syncs   atomic.Uint64
	// begun numbers the syncs as they begin; finished is the highest of those that have succeeded.
	begun, finished atomic.Uint64
	waits           atomic.Uint64 // of readers
}

func newCommitter(s Store, o *Options) *committer {
	c := &committer{store: s, mode: o.Durability, interval: o.SyncInterval, groupMax: int64(o.GroupMax),
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go c.run()
	return c
}

// admit reserves a place before anything is done. Each success is followed by one join or one cancel.
func (c *committer) admit() error {
	if err := c.failed(); err != nil {
		return err
	}
	if c.waiting.Add(1) > c.groupMax {
		c.waiting.Add(-1)
		return &dberr.Overloaded{Message: "Too many writes are waiting for the disk"}
	}
	return nil
}

func (c *committer) cancel() { c.waiting.Add(-1) }

// order applies a batch: when it returns, readers see it. Callers hold what keeps conflicting writers away.
func (c *committer) order(b *Batch) error {
	err := c.store.Apply(b)
	if err != nil && !errors.Is(err, ErrRefused) {
		return c.fail(err)
	}
	return err
}

// join completes d when everything ordered so far is durable, in Periodic mode at once.
func (c *committer) join(d command.Completion) {
	if c.mode == Periodic {
		c.waiting.Add(-1)
		c.touch()
		d.Done(nil)
		return
	}
	c.mu.Lock()
	first := len(c.group) == 0
	c.group = append(c.group, d)
	c.mu.Unlock()
	if first {
		c.signal()
	}
}

// touch sees to it that a sync follows.
func (c *committer) touch() {
	if !c.dirty.Load() && c.dirty.CompareAndSwap(false, true) {
		c.signal()
	}
}

func (c *committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// failed returns why nothing is accepted any more, nil if all is well.
func (c *committer) failed() error {
	if p := c.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops the committer for good; the first cause stays.
func (c *committer) fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrStopped, cause)
	c.failure.CompareAndSwap(nil, &err)
	return c.failed()
}

func (c *committer) run() {
	defer close(c.done)
	var spare []command.Completion
	for {
		select {
		case <-c.wake:
		case <-c.stop:
			c.flush(spare)
			return
		}
		if c.mode == Periodic {
			c.pause()
		}
		spare = c.flush(spare)
	}
}

// pause lets the writes of an interval gather.
func (c *committer) pause() {
	t := time.NewTimer(c.interval)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.stop:
	}
}

// flush syncs and completes one group; it returns the group's memory for the one after next.
func (c *committer) flush(spare []command.Completion) []command.Completion {
	c.mu.Lock()
	group := c.group
	c.group = spare[:0]
	c.mu.Unlock()
	if !c.dirty.Swap(false) && len(group) == 0 {
		return group
	}
	err := c.sync()
	for i, d := range group {
		d.Done(err)
		group[i] = nil
	}
	c.waiting.Add(-int64(len(group)))
	return group
}

func (c *committer) sync() error {
	if err := c.failed(); err != nil {
		return err
	}
	c.syncs.Add(1)
	number := c.begun.Add(1)
	if err := c.store.Sync(); err != nil {
		return c.fail(err)
	}
	for old := c.finished.Load(); old < number && !c.finished.CompareAndSwap(old, number); {
		old = c.finished.Load()
	}
	return nil
}

// close syncs what is left and ends the goroutine. Nothing may be admitted meanwhile.
func (c *committer) close() error {
	close(c.stop)
	<-c.done
	return c.failed()
}
