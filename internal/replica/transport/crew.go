// SPDX-License-Identifier: Apache-2.0

package transport

import "sync"

// crew carries out commands, each on a goroutine that has nothing else to do. Goroutines are used again, for a new one
// has to grow its stack on the way through a read.
type crew struct {
	t    *Transport
	mu   sync.Mutex
	idle []*hand // the last one worked last
}

// hand is a goroutine of a crew.
type hand struct{ next chan task }

type task struct {
	r       *Responder
	request []byte
}

// idleMax is how many goroutines wait for commands.
const idleMax = 128

// do carries out a task, soon; false if the transport is closed.
func (c *crew) do(k task) bool {
	c.mu.Lock()
	var h *hand
	if n := len(c.idle); n > 0 {
		h = c.idle[n-1]
		c.idle = c.idle[:n-1]
	}
	c.mu.Unlock()
	if h != nil {
		h.next <- k // there is room: h had nothing
		return true
	}
	h = &hand{next: make(chan task, 1)}
	return c.t.goRun(func() { c.work(h, k) })
}

func (c *crew) work(h *hand, k task) {
	for {
		k.r.run(k.request)
		k = task{}
		if !c.rest(h) {
			return
		}
		select {
		case k = <-h.next:
		case <-c.t.ctx.Done():
			if c.leave(h) {
				return
			}
			k = <-h.next // it was given one at the last moment
		}
	}
}

// rest offers a goroutine for the next command; false if enough wait.
func (c *crew) rest(h *hand) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) >= idleMax {
		return false
	}
	c.idle = append(c.idle, h)
	return true
}

// leave takes a goroutine out; false if it is not idle any more.
func (c *crew) leave(h *hand) bool {
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
