// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"sync"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
)

// workers runs requests that may take long. A worker starts when there is work. A few idle workers wait for more work,
// because a new goroutine must grow its stack first.
type workers struct {
	srv           *Server
	max, queueMax int
	mu            sync.Mutex
	closed        bool
	running       int             // and not idle
	idle          []chan *request // one channel per idle worker; the last one was active most recently
	queue         []*request      // a ring of queueMax
	head, queued  int
}

func (w *workers) init(s *Server, n, queueMax int) {
	w.srv, w.max, w.queueMax = s, n, queueMax
}

// submit passes r to a worker, or queues it. It returns false if the queue is full.
func (w *workers) submit(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.idle); n > 0 {
		w.running++
		w.idle[n-1] <- r // does not block: the channel of an idle worker is empty
		w.idle = w.idle[:n-1]
		return true
	}
	if w.running < w.max {
		w.running++
		w.srv.wg.Add(1)
		go w.work(r)
		return true
	}
	if w.queued == w.queueMax {
		return false
	}
	if w.queue == nil {
		w.queue = make([]*request, w.queueMax)
	}
	w.queue[(w.head+w.queued)%w.queueMax] = r
	w.queued++
	w.srv.stats.Queued.Add(1)
	return true
}

func (w *workers) work(r *request) {
	defer w.srv.wg.Done()
	wait := make(chan *request, 1)
	for r != nil {
		w.srv.stats.Working.Add(1)
		r.work()
		w.srv.stats.Working.Add(-1)
		r = w.next(wait)
	}
}

// idleWorkers is the maximum number of idle workers.
const idleWorkers = 128

// next returns the next request of a worker, or nil if the worker must end.
func (w *workers) next(wait chan *request) *request {
	if r, rest := w.queuedOr(wait); !rest {
		return r
	}
	return <-wait
}

// queuedOr removes a request from the queue. If the queue is empty, rest reports whether the worker becomes idle and
// waits on wait, or ends.
func (w *workers) queuedOr(wait chan *request) (r *request, rest bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queued == 0 {
		w.running--
		if w.closed || len(w.idle) >= idleWorkers {
			return nil, false
		}
		w.idle = append(w.idle, wait)
		return nil, true
	}
	r = w.queue[w.head]
	w.queue[w.head] = nil
	w.head = (w.head + 1) % w.queueMax
	w.queued--
	w.srv.stats.Queued.Add(-1)
	return r, false
}

// close ends idle workers, and makes busy workers end when they become idle.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, wait := range w.idle {
		close(wait)
	}
	w.idle = nil
}

var errQueueFull error = &dberr.Overloaded{Message: "Too many long-running requests are waiting on this node"}

// offload copies the data of r out of the read buffer and passes r to a worker. r is already in flight.
func (c *conn) offload(r *request, body []byte) {
	r.own = append(r.own[:0], body...)
	r.MayBlock = true
	c.mu.Lock()
	c.link(r)
	if !c.closed {
		c.tasks.Add(1)
	}
	closed := c.closed
	c.mu.Unlock()
	if closed {
		r.finish()
		return
	}
	err := r.parse(r.h, r.own)
	if err == nil && !c.srv.workers.submit(r) {
		c.srv.stats.Overloaded.Add(1)
		err = errQueueFull
	}
	if err != nil {
		c.tasks.Done()
		r.Result.Err = err
		r.finish()
	}
}

// work executes a request on a worker.
func (r *request) work() {
	c := r.c
	defer c.tasks.Done()
	if c.ctx.Err() != nil {
		r.finish() // the client is gone
		return
	}
	if c.park(r) {
		return
	}
	if operations[r.h.Opcode].run(r) == session.Pending && !r.both.Arrive() {
		return
	}
	r.finish()
}

// park postpones a request whose client does not read earlier responses (CQ2). The request stays in flight, but needs
// no worker.
func (c *conn) park(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	unread := len(c.out.Buf) + c.unsent
	if c.closed || unread == 0 || unread <= c.srv.opts.OutputBytesMax && !c.srv.Pressed() {
		return false
	}
	c.parked = append(c.parked, r)
	c.srv.stats.Parked.Add(1)
	return true
}

// unpark passes a postponed request to a worker. It starts one request at a time, because a response may be large; the
// end of its write starts the next. mu must be held.
func (c *conn) unpark() {
	for len(c.parked) > 0 && !c.closed && len(c.out.Buf) <= c.srv.opts.OutputBytesMax {
		r := c.parked[0]
		c.parked[0] = nil
		c.parked = c.parked[1:]
		c.srv.stats.Parked.Add(-1)
		c.tasks.Add(1)
		if c.srv.workers.submit(r) {
			return
		}
		c.tasks.Done()
		c.srv.stats.Overloaded.Add(1)
		r.Result.Err = errQueueFull
		c.answer(r)
	}
}

// dropParked drops the postponed requests of a client that is gone.
func (c *conn) dropParked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.parked {
		c.srv.stats.Parked.Add(-1)
		c.answer(r)
	}
	c.parked = nil
}
