// SPDX-License-Identifier: Apache-2.0

// Package admission implements admission control for a node. When clients send more requests than the node can
// process, the package rejects requests before the node works on them. The admitted requests therefore receive their
// responses in time.
//
// Guarantees: (GA1) No request is rejected while the queue delay is below the limit. No request is rejected while too
// few requests wait to keep the processors busy. (GA2) Under overload, the admitted load is about the capacity of the
// node, and the queue delay is about the limit. (GA3) Capacity is shared as package fairshare describes. Users and
// their connections get equal shares, and low priority comes last. (GA4) A rejection does not take a lock and does not
// allocate.
//
// A few dozen times per second, the caller reports the queue delay in a Sample. When all samples of an interval exceed
// the limit, the gate closes. The gate then admits a fraction of the requested load, which is measured by price. The
// fraction decreases while the delay exceeds the limit and does not fall. It increases while the delay is below the
// limit. Requests that have already waited longer than the limit are admitted at a lower rate. Therefore, the backlog
// after a stall is cleared quickly, and new requests are served. The gate opens when no request has been rejected for
// some time. The gate admits a fraction of the load instead of a rate. The reason is that requests that are executed
// sequentially also arrive at the gate sequentially, regardless of the number of waiting requests. The package does
// not read the clock.
package admission

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// SampleEvery is the interval between two samples.
	SampleEvery = 20 * time.Millisecond
	// closeAfter is the time for which all samples must exceed the limit before requests are rejected. openAfter is
	// the time for which no request must be rejected before the gate opens.
	closeAfter, openAfter = 100 * time.Millisecond, time.Second
	// grain is the amount of load that can be admitted later, in addition to the current fraction. It is the time
	// within which clients request that amount. reserve is the part of grain that the heaviest users must leave to
	// other users.
	grain, reserve = 20 * time.Millisecond, 0.6
	grainMin       = 64
	// service is the maximum ratio of the service time to the service time under light load. The limit applies if the
	// service time under light load exceeds the queue delay limit. It is for requests that wait for resources other
	// than processors, such as a slow disk or other regions.
	service = 5
	// lightLoad is the number of requests in flight per processor up to which the load is light. That many requests
	// are always allowed.
	lightLoad = 512
	// letsMin is the minimum fraction of the load that is admitted.
	letsMin = 0.001
	// hasteMax is the maximum factor by which the fraction adapts faster after the gate has closed.
	hasteMax = 8
	// least is the minimum price of a request.
	least = ru.Unit
)

// Gate admits or rejects requests. All methods except Sample are safe for concurrent use.
type Gate struct {
	bound time.Duration
	// floor is the number of requests that are always allowed to wait.
	floor int64

	closed atomic.Bool
	// balance is the load that can be admitted, in units. The admitted fraction of the requested load is added to
	// balance, up to saved, which holds the bits of a float64. The load of admitted requests is subtracted from
	// balance.
	balance atomic.Int64
	part    atomic.Uint64
	saved   atomic.Int64
	// waitLimit is the wait, in nanoseconds, above which requests are admitted at a lower rate.
	waitLimit atomic.Int64
	// asked is the load, in units, that was requested while the gate was closed.
	asked  atomic.Int64
	shares fairshare.Shares

	refused, refusedLow atomic.Uint64

	// Only Sample uses the following fields.
	last Sample
	// under is the number of requests in flight under light load. doing is the number of completed requests per second
	// under light load.
	under, doing float64
	// done is the recent number of completed requests per second. wants is the recent number of requested units per
	// second.
	done, wants float64
	// over is the ratio of the last queue delay or service time to its limit. lately is the average ratio for the
	// queue delay over several samples.
	over, lately float64
	// lets is the fraction that is admitted while the queue delay is at the limit. haste is the current factor by
	// which lets changes faster.
	lets, haste float64
	// above is the number of consecutive samples with long delays. eager is the number of consecutive samples with
	// short delays. calm is the number of consecutive samples without a rejection.
	above, calm time.Duration
	eager       int
	told        uint64
	toldAsked   int64
}

// New returns a gate for a machine with the given number of processors. The gate rejects requests when the queue delay
// exceeds bound. If bound is 0, the gate rejects no requests.
func New(bound time.Duration, processors int) *Gate {
	return &Gate{bound: bound, floor: lightLoad * int64(processors)}
}

// Closed reports whether requests must be admitted with Admit.
func (g *Gate) Closed() bool { return g.closed.Load() }

// Admit reports whether the gate admits a request. The request has an estimated cost and has already waited for some
// time. now is the time since the same instant as in samples.
func (g *Gate) Admit(c fairshare.Principal, cost ru.Units, waited, now time.Duration) bool {
	cost = max(cost, least)
	g.asked.Add(int64(cost))
	saved := g.saved.Load()
	part := math.Float64frombits(g.part.Load())
	if waitLimit := time.Duration(g.waitLimit.Load()); waited > waitLimit {
		part *= less(float64(waited) / float64(waitLimit))
	}
	b := g.balance.Add(int64(part * float64(cost)))
	if b > saved {
		g.balance.Add(saved - b)
		b = saved
	}
	if b <= int64(g.shares.Reserve(c, now)*reserve*float64(saved)) {
		if g.refused.Add(1); c.Low {
			g.refusedLow.Add(1)
		}
		return false
	}
	g.balance.Add(-int64(cost))
	g.shares.Took(c, int64(cost))
	return true
}

// Stats holds the state and the counters of the gate.
type Stats struct {
	Closed bool
	// Refused counts all rejected requests. RefusedLow counts the rejected requests with low priority.
	Refused, RefusedLow uint64
}

// Stats returns the state and the counters.
func (g *Gate) Stats() Stats {
	return Stats{Closed: g.Closed(), Refused: g.refused.Load(), RefusedLow: g.refusedLow.Load()}
}

// Sample is a measurement of the load of the node.
type Sample struct {
	Now time.Duration
	// Done is the number of requests completed since the start. It does not include rejections.
	Done int64
	// UnderWay is the number of admitted requests that are not complete.
	UnderWay int64
	// Waited is the average time for which requests have waited for a processor since the last sample.
	Waited time.Duration
}

// Sample reports the load of the node. The gate may then close, open, or change the admitted fraction.
func (g *Gate) Sample(s Sample) {
	took := (s.Now - g.last.Now).Seconds()
	if g.bound == 0 || took <= 0 {
		return
	}
	weight := min(1, 0.3*took/SampleEvery.Seconds())
	perSecond := float64(s.Done-g.last.Done) / took
	g.done += weight * (perSecond - g.done)
	refused, asked := g.refused.Load(), g.asked.Load()
	g.wants += weight * (float64(asked-g.toldAsked)/took - g.wants)
	pressed, since := refused != g.told, s.Now-g.last.Now
	g.last, g.told, g.toldAsked = s, refused, asked
	waiting, running := g.waiting(s), g.running(s, took, perSecond)
	if !g.closed.Load() {
		g.lately += weight * (waiting - g.lately)
		if g.above += since; max(g.lately, running) <= 1 {
			g.above = 0
		}
		if g.above >= closeAfter {
			g.close()
		}
		return
	}
	g.steer(waiting, running, pressed)
	if g.calm += since; pressed || max(waiting, running) > 1 {
		g.calm = 0
	}
	if g.calm >= openAfter {
		g.above, g.calm, g.lately = 0, 0, 0
		g.closed.Store(false)
	}
}

func (g *Gate) close() {
	g.lets, g.haste, g.wants, g.eager, g.calm = 0.5, hasteMax, 0, 0, 0
	g.steer(2, 2, true)
	g.closed.Store(true)
}

// steer adjusts the fraction. waiting is the ratio of the queue delay to its limit. running is the ratio of the
// service time to its limit. The fraction changes slowly, but decreases considerably while too many requests are in
// flight. It does not decrease while the delay decreases.
func (g *Gate) steer(waiting, running float64, pressed bool) {
	over, step := max(waiting, running), 0.01*g.haste
	g.haste = max(1, 0.95*g.haste)
	if pressed && over < 0.6 {
		g.eager++
		g.lets *= 1 + step*float64(min(3, g.eager))
	} else if g.eager = 0; over > 1 && over >= g.over {
		g.lets *= 1 - step*min(2, over-1)
	}
	g.over = over
	g.lets = min(1, max(letsMin, g.lets))
	g.part.Store(math.Float64bits(g.lets * less(running)))
	g.saved.Store(int64(max(g.wants*grain.Seconds(), grainMin*float64(least))))
}

// less returns the factor by which the fraction of admitted requests is multiplied. over is the ratio of the wait to
// its limit.
func less(over float64) float64 { return 1 - min(0.98, 0.3*max(0, over-1)) }

// waiting returns the ratio of the queue delay to its limit. The limit exceeds bound if the requests that are always
// allowed to wait take longer than bound.
func (g *Gate) waiting(s Sample) float64 {
	// The same limit applies if almost no requests complete, because other processes may use the processors.
	waitLimit := max(g.bound, time.Duration(float64(g.floor)/max(1, g.done)*float64(time.Second)))
	g.waitLimit.Store(int64(waitLimit))
	return float64(s.Waited) / float64(waitLimit)
}

// running returns the ratio of the admitted requests' service time to its limit. By Little's law, the service time is
// the number of requests divided by the rate of completions. The limit is derived from the service time measured under
// light load.
func (g *Gate) running(s Sample, took, perSecond float64) float64 {
	if s.UnderWay <= g.floor {
		weight := min(1, 0.05*took/SampleEvery.Seconds())
		g.under += weight * (float64(s.UnderWay) - g.under)
		g.doing += weight * (perSecond - g.doing)
		return 0
	}
	takes, alone := float64(s.UnderWay)/max(1, g.done), g.under/max(1, g.doing)
	return takes / max(g.bound.Seconds(), service*alone)
}
