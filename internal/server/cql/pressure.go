// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"math"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/server/gate"
)

// Requests wait in the connections' sockets, for a processor, or under way, where a disk or another node is waited for.
// The gate is told of all three.

const (
	// idlePace is the time between two samples while little is asked for.
	idlePace = 250 * time.Millisecond
	// busyRequests is how many requests between two samples are more than a little.
	busyRequests = 20
	// busyRead is how many requests in one read make a connection a busy one, gatherMax how long that waits for more
	// under overload, at most.
	busyRead, gatherMax = 4, 5 * time.Millisecond
)

// Overload is what a request is told that the gate refuses.
const Overload = "The node is asked for more than it can do: try again later, or ask another one"

var errOverload error = &dberr.Overloaded{Message: Overload}

// now is the time since the server was made.
func (s *Server) now() time.Duration { return time.Since(s.made) }

// pressure is what the gate was told last.
type pressure struct {
	// due is when it is to be told next.
	due atomic.Int64
	// processor is how long goroutines waited for a processor then, in nanoseconds.
	processor atomic.Int64
	mu        sync.Mutex
	// The rest is guarded by mu.
	processors   *processorWait
	waited, seen int64
}

// watchPressure tells the gate how the server does, until the server is closed.
func (s *Server) watchPressure() {
	timer := time.NewTimer(idlePace)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			return
		}
		now := s.now()
		s.users.Tick(now)
		timer.Reset(s.tellGate(now))
	}
}

// tellGate tells the gate how the server does, if that is due, and returns after what time to do it again. Under load
// connections call it, too: a goroutine for it alone would have to wait as long as they do.
func (s *Server) tellGate(now time.Duration) (pace time.Duration) {
	p := &s.pressure
	if int64(now) < p.due.Load() || !p.mu.TryLock() {
		return gate.SampleEvery
	}
	defer p.mu.Unlock()
	st := &s.stats
	waited, done := st.Waited.Load(), st.Executed.Load()
	seen := done + int64(s.gate.Stats().Refused)
	processor := p.processors.mean()
	p.processor.Store(int64(processor))
	sample := gate.Sample{Now: now, Done: done, UnderWay: st.InFlight.Load() - st.Parked.Load(), Waited: processor}
	if n := seen - p.seen; n > 0 {
		sample.Waited = time.Duration((waited - p.waited) / n)
	}
	s.gate.Sample(sample)
	if pace = gate.SampleEvery; seen-p.seen < busyRequests && !s.gate.Closed() {
		pace = idlePace
	}
	p.waited, p.seen = waited, seen
	p.due.Store(int64(now + gate.SampleEvery))
	return pace
}

// processorWait reads from the runtime how long goroutines waited for a processor.
type processorWait struct {
	sample [1]metrics.Sample
	before []uint64
}

func newProcessorWait() *processorWait {
	p := &processorWait{}
	p.sample[0].Name = "/sched/latencies:seconds"
	p.mean()
	return p
}

// mean is how long they waited on average since it was called last.
func (p *processorWait) mean() time.Duration {
	metrics.Read(p.sample[:])
	if p.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := p.sample[0].Value.Float64Histogram()
	if len(p.before) != len(h.Counts) {
		p.before = make([]uint64, len(h.Counts))
	}
	var count uint64
	var seconds float64
	for i, n := range h.Counts {
		if n -= p.before[i]; n > 0 {
			at := h.Buckets[i+1]
			if math.IsInf(at, 0) {
				at = h.Buckets[i]
			}
			count, seconds = count+n, seconds+float64(n)*at
		}
	}
	copy(p.before, h.Counts)
	if count == 0 {
		return 0
	}
	return time.Duration(seconds / float64(count) * float64(time.Second))
}

// pause comes before a read: others go first while more waits to be read, so that all wait alike; under overload a busy
// connection gathers, as many requests cost less each, also to be refused, than a few at a time.
func (c *conn) pause() {
	closed := c.srv.gate.Closed()
	if closed && c.readLeft == 0 && c.brought >= busyRead {
		time.Sleep(min(gatherMax, c.srv.opts.WaitMax/4))
	} else if closed || c.readLeft != 0 {
		runtime.Gosched()
	}
}

// timeRead notes how long the n bytes that were just read, of n + left, have waited in the socket at most: since that
// was last seen to be empty. What is left, below 0 if that is not known, came after them. Where the connection had to
// wait for them they have waited as long as goroutines do for a processor; where it had to wait for its client to read,
// nobody knows.
func (c *conn) timeRead(n, left int) {
	c.waited = 0
	p := &c.srv.pressure
	if held := c.held.Load(); held || c.slept {
		c.emptied = 0
		if held {
			c.held.Store(false)
		} else {
			c.waited = time.Duration(p.processor.Load())
		}
		return
	}
	now := c.srv.now()
	if c.emptied > 0 {
		c.waited = now - c.emptied
	}
	if left == 0 || c.emptied == 0 {
		c.emptied = now
	} else if left > 0 {
		c.emptied += time.Duration(float64(c.waited) * float64(n) / float64(n+left))
	}
	if int64(now) >= p.due.Load() {
		c.srv.tellGate(now)
	}
}

// executed counts a request that is answered, and notes what one costs. mu is held.
func (c *conn) executed(u ru.Units) {
	c.did++
	c.units += u
	c.cost += (u - c.cost) / 8
}

// tellExecuted adds what was counted to the server's figures. mu is held.
func (c *conn) tellExecuted() {
	if c.did > 0 {
		c.srv.stats.Executed.Add(c.did)
		c.asker.Add(uint64(c.did), c.refused, c.units)
		c.did, c.refused, c.units = 0, 0, 0
	}
}

// letIn reports whether the gate, which is closed, lets a request in.
func (c *conn) letIn(h cqlwire.Header, body []byte) bool {
	who := c.claimant
	if who.Low = c.low(); !who.Low && h.Flags&cqlwire.FlagPayload != 0 && c.version >= cqlwire.V4 {
		who.Low = lowPriority(body)
	}
	c.mu.Lock()
	cost := c.cost
	c.mu.Unlock()
	now := c.srv.now()
	if int64(now) >= c.srv.pressure.due.Load() {
		c.srv.tellGate(now)
	}
	return c.srv.gate.Admit(who, cost, c.waited, now)
}
