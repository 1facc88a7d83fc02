// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"hash/maphash"
	"math"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/share"
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
	mu  sync.Mutex
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
		timer.Reset(s.tellGate(s.now()))
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
	sample := gate.Sample{Now: now, Done: done, UnderWay: st.InFlight.Load() - st.Parked.Load(),
		Waited: p.processors.mean()}
	if n := seen - p.seen; n > 0 {
		sample.Waited = max(sample.Waited, time.Duration((waited-p.waited)/n))
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

// timeRead notes how long what was just read has waited in the socket at most: since that was last seen to be empty.
// Where the connection had to wait for it, or for its client to read, nobody knows. all says that there was nothing
// else.
func (c *conn) timeRead(all bool) {
	c.waited = 0
	if held := c.held.Load(); held || c.slept {
		c.emptied = 0
		if held {
			c.held.Store(false)
		}
		return
	}
	now := c.srv.now()
	if c.emptied > 0 {
		c.waited = now - c.emptied
	}
	if all || c.emptied == 0 {
		c.emptied = now
	}
	if int64(now) >= c.srv.pressure.due.Load() {
		c.srv.tellGate(now)
	}
}

// executed counts a request that is answered, and notes what one costs. mu is held.
func (c *conn) executed(u ru.Units) {
	c.did++
	c.cost += (u - c.cost) / 8
}

// tellExecuted adds what was counted to the server's figures. mu is held.
func (c *conn) tellExecuted() {
	if c.did > 0 {
		c.srv.stats.Executed.Add(c.did)
		c.did = 0
	}
}

var hashSeed = maphash.MakeSeed()

// claimantOf tells clients from each other: by their roles, or by where they come from if they have none.
func claimantOf(c *conn, role string) share.Claimant {
	user := role
	if user == "" {
		user = c.remote.Addr().String()
	}
	return share.Claimant{User: uint32(maphash.String(hashSeed, user)),
		Connection: uint32(maphash.Comparable(hashSeed, c.remote))}
}

// letIn reports whether the gate, which is closed, lets a request in.
func (c *conn) letIn(h cqlwire.Header, body []byte) bool {
	who := c.claimant
	if who.Low = c.low(); h.Flags&cqlwire.FlagPayload != 0 && c.version >= cqlwire.V4 {
		who.Low = lowPriority(body, who.Low)
	}
	c.mu.Lock()
	cost := c.cost
	c.mu.Unlock()
	now := c.srv.now()
	if int64(now) >= c.srv.pressure.due.Load() {
		c.srv.tellGate(now)
	}
	return c.srv.gate.Admit(who, cost, now)
}
