// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// queues holds the requests that wait for throttled partitions. Each pair of a partition and a principal has a queue.
// Only the first request of a queue is sent to the partition. Therefore, the partition can divide its throughput among
// all principals, and the requests of a principal are served in order.
type queues struct {
	// max is the maximum number of waiting requests. maxReads is the maximum number of waiting reads.
	max, maxReads int
	waiting       atomic.Int64

	mu    sync.Mutex
	reads int
	all   map[claim]*queue
}

type claim struct {
	id  topology.PartitionID
	who fairshare.Principal
}

type queue struct {
	first, last *slot
	// refusal is the last error that the partition has returned.
	refusal *dberr.Overloaded
}

// slot is the position of a request in a queue. ready is closed when the request is the first in its queue.
type slot struct {
	claim      claim
	read       bool
	ready      chan struct{}
	prev, next *slot
}

// enter appends a request to its queue. If too many requests are waiting, enter returns nil.
func (q *queues) enter(c claim, read bool) *slot {
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.waiting.Load()) >= q.max || read && q.reads >= q.maxReads {
		return nil
	}
	q.waiting.Add(1)
	if read {
		q.reads++
	}
	p := &slot{claim: c, read: read, ready: make(chan struct{})}
	if q.all == nil {
		q.all = map[claim]*queue{}
	}
	own := q.all[c]
	if own == nil {
		own = new(queue)
		q.all[c] = own
	}
	if p.prev = own.last; p.prev == nil {
		own.first = p
		close(p.ready)
	} else {
		p.prev.next = p
	}
	own.last = p
	return p
}

// leave removes a slot from its queue.
func (q *queues) leave(p *slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.Add(-1)
	if p.read {
		q.reads--
	}
	own := q.all[p.claim]
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		own.last = p.prev
	}
	switch {
	case p.prev != nil:
		p.prev.next = p.next
	case p.next != nil:
		own.first = p.next
		close(p.next.ready)
	default:
		delete(q.all, p.claim)
	}
}

// refused records the error that a partition has returned for a slot.
func (q *queues) refused(p *slot, why *dberr.Overloaded) {
	q.mu.Lock()
	q.all[p.claim].refusal = why
	q.mu.Unlock()
}

// ahead returns the last error of a queue, or nil if the queue is empty.
func (q *queues) ahead(c claim) *dberr.Overloaded {
	if q.waiting.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if own := q.all[c]; own != nil {
		return own.refusal
	}
	return nil
}

// QueuesThrottled reports whether requests for a throttled partition wait in a queue instead of being rejected
// immediately.
func (c *Coordinator) QueuesThrottled() bool { return c.opts.ThrottledWait > 0 }

// queuedError returns an error if other requests of the same principal already wait for the partition.
func (e *routedRequest) queuedError(t *target) error {
	if e.throttleDeadline.IsZero() || e.slot != nil || e.who.IsInternal() {
		return nil
	}
	if why := e.c.queues.ahead(claim{t.id, e.who}); why != nil {
		return why
	}
	return nil
}

// enqueueThrottled adds the request to a queue if err means that the partition is throttled. It reports whether the
// request is in a queue.
func (e *routedRequest) enqueueThrottled(t *target, err error) bool {
	if e.throttleDeadline.IsZero() || e.maybeApplied || e.who.IsInternal() {
		return false
	}
	why, ok := errors.AsType[*dberr.Overloaded](err)
	if !ok || why.RetryAfter <= 0 || !e.c.sched.Now().Add(why.RetryAfter).Before(e.throttleDeadline) {
		return false
	}
	if e.slot == nil {
		if e.slot = e.c.queues.enter(claim{t.id, e.who}, e.blocking); e.slot == nil {
			return false
		}
	}
	e.c.queues.refused(e.slot, why)
	e.retryAfter = why.RetryAfter
	e.c.stats.reasons[throttled].Add(1)
	return true
}

// leaveQueue removes the request from its queue, if any.
func (e *routedRequest) leaveQueue() {
	if e.slot != nil {
		e.c.queues.leave(e.slot)
		e.slot = nil
	}
}

// awaitTurn waits until the first request of a queue may be sent again.
func (e *routedRequest) awaitTurn(ctx context.Context) error {
	left := e.c.sched.Until(e.throttleDeadline)
	select {
	case <-e.slot.ready: // the request is first in its queue and has been rejected
		if e.retryAfter > left {
			return context.DeadlineExceeded
		}
		return e.c.sched.Sleep(ctx, e.retryAfter)
	default:
	}
	if left <= 0 {
		return context.DeadlineExceeded
	}
	if err := e.c.sched.Sleep(ctx, left, e.slot.ready); err != nil {
		return err
	}
	if !e.c.sched.Now().Before(e.throttleDeadline) {
		return context.DeadlineExceeded
	}
	e.retryAfter = time.Millisecond // used if the partition does not specify a delay
	return nil
}
