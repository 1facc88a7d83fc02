// SPDX-License-Identifier: Apache-2.0

package cql

import "sync"

// workers runs requests that may take a long time. A worker starts when work is available. A few idle workers wait for
// more work, because a new goroutine must first grow its stack.
type workers struct {
	srv           *Server
	max, queueMax int
	mu            sync.Mutex
	closed        bool
	running       int             // number of workers that are not idle
	idle          []chan *request // one channel per idle worker; the most recently active worker is last
	queue         []*request      // ring buffer with queueMax elements
	head, queued  int
}

func (w *workers) init(s *Server, n, queueMax int) {
	w.srv, w.max, w.queueMax = s, n, queueMax
}

// submit passes r to a worker or queues it. It returns false if the queue is full.
func (w *workers) submit(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.idle); n > 0 {
		w.running++
		w.idle[n-1] <- r // the send does not block, because an idle worker has an empty channel
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
// waits on wait. Otherwise, the worker ends.
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

// close ends idle workers. Busy workers end when they become idle.
func (w *workers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, wait := range w.idle {
		close(wait)
	}
	w.idle = nil
}
