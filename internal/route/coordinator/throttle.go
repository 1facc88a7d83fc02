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

// queues are the requests that wait because their partition has spent what it may take so far: one queue for each
// partition and claimant, whose first request asks again when it may, the others after it. So a partition is asked
// again by one request of each claimant at a time, shares out among claimants as ever, and each of them is served in
// the order in which its requests came.
type queues struct {
	// most is how many requests may wait, mostReads how many reads among them.
	most, mostReads int
	// waiting is how many do.
	waiting atomic.Int64

	mu    sync.Mutex
	reads int
	all   map[claim]*queue
}

type claim struct {
	id  topology.PartitionID
	who fairshare.Principal
}

type queue struct {
	first, last *place
	// refusal is what the partition said last.
	refusal *dberr.Overloaded
}

// place is that of a request in its queue. turn is closed when it is the first.
type place struct {
	claim      claim
	read       bool
	turn       chan struct{}
	prev, next *place
}

// enter gives a request the last place of its queue, nil if too many wait already.
func (q *queues) enter(c claim, read bool) *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.waiting.Load()) >= q.most || read && q.reads >= q.mostReads {
		return nil
	}
	q.waiting.Add(1)
	if read {
		q.reads++
	}
	p := &place{claim: c, read: read, turn: make(chan struct{})}
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
		close(p.turn)
	} else {
		p.prev.next = p
	}
	own.last = p
	return p
}

// leave gives up a place.
func (q *queues) leave(p *place) {
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
		close(p.next.turn)
	default:
		delete(q.all, p.claim)
	}
}

// refused notes what the partition of a place has said.
func (q *queues) refused(p *place, why *dberr.Overloaded) {
	q.mu.Lock()
	q.all[p.claim].refusal = why
	q.mu.Unlock()
}

// ahead returns what requests of a claimant were told that wait for a partition, nil if none does.
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

// Waits reports whether requests wait for a while that a partition refuses because it has spent what it may take.
func (c *Coordinator) Waits() bool { return c.opts.ThrottledWait > 0 }

// others returns why an errand is not to ask: others of its claimant wait for the partition.
func (e *errand) others(t *target) error {
	if e.patience.IsZero() || e.place != nil || e.who.IsInternal() {
		return nil
	}
	if why := e.c.queues.ahead(claim{t.id, e.who}); why != nil {
		return why
	}
	return nil
}

// throttled reports whether an errand whose attempt has ended like this waits for its turn, in a place of its queue.
func (e *errand) throttled(t *target, err error) bool {
	if e.patience.IsZero() || e.maybe || e.who.IsInternal() {
		return false
	}
	why, ok := errors.AsType[*dberr.Overloaded](err)
	if !ok || why.RetryAfter <= 0 || !e.c.sched.Now().Add(why.RetryAfter).Before(e.patience) {
		return false
	}
	if e.place == nil {
		if e.place = e.c.queues.enter(claim{t.id, e.who}, e.reads); e.place == nil {
			return false
		}
	}
	e.c.queues.refused(e.place, why)
	e.retryAfter = why.RetryAfter
	e.c.stats.reasons[throttled].Add(1)
	return true
}

// leaveQueue gives up the errand's place, if it has one.
func (e *errand) leaveQueue() {
	if e.place != nil {
		e.c.queues.leave(e.place)
		e.place = nil
	}
}

// awaitTurn returns nil when it is time to ask again.
func (e *errand) awaitTurn(ctx context.Context) error {
	left := e.c.sched.Until(e.patience)
	select {
	case <-e.place.turn: // it is the first, and was refused itself
		if e.retryAfter > left {
			return context.DeadlineExceeded
		}
		return e.c.sched.Sleep(ctx, e.retryAfter)
	default:
	}
	if left <= 0 {
		return context.DeadlineExceeded
	}
	if err := e.c.sched.Sleep(ctx, left, e.place.turn); err != nil {
		return err
	}
	if !e.c.sched.Now().Before(e.patience) {
		return context.DeadlineExceeded
	}
	e.retryAfter = time.Millisecond // should it turn out to be refused by somebody else than the partition
	return nil
}
