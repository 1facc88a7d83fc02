// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// makeDurable runs the syncer goroutine.
func (c *committer) makeDurable() {
	defer close(c.syncer)
	var spare []proposal
	for {
		select {
		case <-c.sync:
		case <-c.applier:
			c.flush(spare)
			return
		}
		if c.mode == Periodic {
			c.pause()
		}
		spare = c.flush(spare)
	}
}

// pause waits for the sync interval to collect writes.
func (c *committer) pause() {
	t := time.NewTimer(c.interval)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.stop:
	}
}

// flush syncs and completes one group. It returns the memory of the group for reuse.
func (c *committer) flush(spare []proposal) []proposal {
	c.mu.Lock()
	group := c.group
	c.group = spare[:0]
	c.mu.Unlock()
	if len(group) == 0 && c.synced.Load() == c.committed.Load() {
		return group
	}
	number := c.committed.Load()
	err := c.syncStore()
	for i := range group {
		p := &group[i]
		if err != nil {
			p.outcome = raftgroup.Outcome{Err: err}
		} else if p.entry == nil && p.outcome.Index > number {
			// A reader waits for a batch that was not yet committed when the sync began, so another sync is necessary.
			c.mu.Lock()
			c.group = append(c.group, *p)
			c.mu.Unlock()
			continue
		}
		c.waiting.Add(-1)
		p.waiter.Done(p.outcome)
	}
	c.mu.Lock()
	c.unfinished = len(c.group) > 0
	c.unlock()
	clear(group)
	return group
}

// syncStore makes all committed batches durable.
func (c *committer) syncStore() error {
	if err := c.failed(); err != nil {
		return err
	}
	number := c.committed.Load()
	if err := c.host.store.Sync(); err != nil {
		return c.fail(err)
	}
	for old := c.synced.Load(); old < number && !c.synced.CompareAndSwap(old, number); {
		old = c.synced.Load()
	}
	return nil
}

// durable notifies w when a batch is durable. If durable returns an error, it does not notify w.
func (c *committer) durable(number uint64, w raftgroup.Waiter) error {
	if err := c.failed(); err != nil {
		return err
	}
	if number <= c.synced.Load() {
		w.Done(raftgroup.Outcome{})
		return nil
	}
	c.waiting.Add(1)
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.group = append(c.group, proposal{waiter: w, outcome: raftgroup.Outcome{Index: number}})
	}
	c.mu.Unlock()
	if closed {
		c.waiting.Add(-1)
		return ErrClosed
	}
	poke(c.sync)
	return nil
}
