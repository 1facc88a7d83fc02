// SPDX-License-Identifier: Apache-2.0

package transport

import "sync"

// workerPool runs commands on goroutines. It reuses goroutines, because a new goroutine must grow its stack during a
// read.
type workerPool struct {
	lifetime *lifetime
	mu       sync.Mutex
	idle     []*worker // most recently used worker last
}

// worker is a goroutine of a workerPool.
type worker struct{ tasks chan task }

type task struct {
	r       *responder
	request []byte
}

// idleMax is the maximum number of idle goroutines.
const idleMax = 128

// run runs a task asynchronously. It returns false if the transport is closed.
func (c *workerPool) run(k task) bool {
	c.mu.Lock()
	var h *worker
	if n := len(c.idle); n > 0 {
		h = c.idle[n-1]
		c.idle = c.idle[:n-1]
	}
	c.mu.Unlock()
	if h != nil {
		h.tasks <- k // this does not block, because h was idle
		return true
	}
	h = &worker{tasks: make(chan task, 1)}
	return c.lifetime.goRun(func() { c.work(h, k) })
}

func (c *workerPool) work(h *worker, k task) {
	for {
		k.r.run(k.request)
		k = task{}
		if !c.park(h) {
			return
		}
		select {
		case k = <-h.tasks:
		case <-c.lifetime.ctx.Done():
			if c.unpark(h) {
				return
			}
			k = <-h.tasks // the worker has just received a task
		}
	}
}

// park makes a goroutine available for the next command. It returns false if enough goroutines are already idle.
func (c *workerPool) park(h *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) >= idleMax {
		return false
	}
	c.idle = append(c.idle, h)
	return true
}

// unpark removes a goroutine from the idle list. It returns false if the goroutine has already received a task.
func (c *workerPool) unpark(h *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range c.idle {
		if o == h {
			c.idle = append(c.idle[:i], c.idle[i+1:]...)
			return true
		}
	}
	return false
}
