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
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/server/admission"
)

// Requests wait in the sockets of connections, for a processor, and for a disk or another node. Admission control
// receives all three delays.

const (
	// idlePace is the interval between two samples under low load.
	idlePace = 250 * time.Millisecond
	// busyRequests is the number of requests between two samples above which the load is not low.
	busyRequests = 20
	// busyRead is the minimum number of requests in one read of a busy connection. gatherMax is the maximum time for
	// which a busy connection collects requests under overload.
	busyRead, gatherMax = 4, 5 * time.Millisecond
)

// Overload is the error text for a request that admission control rejects.
const Overload = "The node is overloaded: requests exceed its capacity. Retry later or use another node"

var errOverload error = &dberr.Overloaded{Message: Overload}

// now returns the time since the server was created.
func (s *Server) now() time.Duration { return time.Since(s.made) }

// pressure holds the last samples of the load.
type pressure struct {
	// due is the time of the next sample.
	due atomic.Int64
	// processor is the time for which goroutines waited for a processor, in nanoseconds.
	processor atomic.Int64
	mu        sync.Mutex
	// mu guards the following fields.
	processors   *processorWait
	waited, seen int64
}

// watchPressure samples the load for admission control until the server is closed.
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

// tellGate samples the load if a sample is due. It returns the time until the next sample. Under load, connections
// also call it. A separate goroutine would have to wait for a processor as long as the connections.
func (s *Server) tellGate(now time.Duration) (pace time.Duration) {
	p := &s.pressure
	if int64(now) < p.due.Load() || !p.mu.TryLock() {
		return admission.SampleEvery
	}
	defer p.mu.Unlock()
	st := &s.stats
	waited, done := st.Waited.Load(), st.Executed.Load()
	seen := done + int64(s.gate.Stats().Refused)
	processor := p.processors.mean()
	p.processor.Store(int64(processor))
	sample := admission.Sample{Now: now, Done: done, UnderWay: st.InFlight.Load() - st.Parked.Load(), Waited: processor}
	if n := seen - p.seen; n > 0 {
		sample.Waited = time.Duration((waited - p.waited) / n)
	}
	s.gate.Sample(sample)
	if pace = admission.SampleEvery; seen-p.seen < busyRequests && !s.gate.Closed() {
		pace = idlePace
	}
	p.waited, p.seen = waited, seen
	p.due.Store(int64(now + admission.SampleEvery))
	return pace
}

// sampleIfDue samples the load if a sample is due. It returns the time since the server was created.
func (s *Server) sampleIfDue() (now time.Duration) {
	if now = s.now(); int64(now) >= s.pressure.due.Load() {
		s.tellGate(now)
	}
	return now
}

// Guest admits or rejects a request that arrived through another protocol. It uses the admission control of this
// server's clients. An admitted request counts until done is called. cost is the estimated cost of the request.
func (s *Server) Guest(who fairshare.Principal, cost ru.Units) (done func(), ok bool) {
	now := s.sampleIfDue()
	if s.gate.Closed() && !s.gate.Admit(who, cost, time.Duration(s.pressure.processor.Load()), now) {
		return nil, false
	}
	s.stats.InFlight.Add(1)
	return s.guestDone, true
}

func (s *Server) guestDone() {
	s.stats.InFlight.Add(-1)
	s.stats.Executed.Add(1)
}

// processorWait reads, from the runtime, how long goroutines have waited for a processor.
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

// mean returns the average wait since the last call.
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

// socketDelay measures how long requests wait in the socket of a connection. A socketDelay belongs to the goroutine of
// the connection.
type socketDelay struct {
	srv *Server
	// waited is the maximum time for which the data of the last read was in the socket. emptied is the time at which
	// the socket was last empty, or 0 if this time is unknown. All data in the socket has arrived after emptied.
	waited, emptied time.Duration
	// brought is the number of requests in the last read.
	brought int64
}

// pause runs before a read. left is the number of bytes that the last read left in the socket. If more data must be
// read, other goroutines run first, so all connections wait equally long. Under overload, a busy connection collects
// requests. To execute or reject a large group costs less per request than to execute or reject a small group.
func (d *socketDelay) pause(left int) {
	closed := d.srv.gate.Closed()
	if closed && left == 0 && d.brought >= busyRead {
		time.Sleep(min(gatherMax, d.srv.opts.WaitMax/4))
	} else if closed || left != 0 {
		runtime.Gosched()
	}
}

// read records the maximum time for which the n bytes of the last read were in the socket. This time is the time since
// the socket was last empty. left is the number of bytes that remain in the socket, or negative if the number is
// unknown. The remaining bytes arrived after the n bytes. If the connection waited for data, the data has waited as
// long as goroutines wait for a processor. If the connection was delayed because the client did not read, the time is
// unknown.
func (d *socketDelay) read(n, left int, slept, held bool) {
	d.waited = 0
	if held || slept {
		d.emptied = 0
		if !held {
			d.waited = time.Duration(d.srv.pressure.processor.Load())
		}
		return
	}
	now := d.srv.sampleIfDue()
	if d.emptied > 0 {
		d.waited = now - d.emptied
	}
	if left == 0 || d.emptied == 0 {
		d.emptied = now
	} else if left > 0 {
		d.emptied += time.Duration(float64(d.waited) * float64(n) / float64(n+left))
	}
}
