// SPDX-License-Identifier: Apache-2.0

// Package gate is the admission control of the machine: when more is asked for than it does, requests are refused
// before any work is done for them, so that those that are let in are answered in time.
//
// Guarantees: (GA1) nothing is refused while requests wait less than the bound, or fewer of them than keep the machine
// busy; (GA2) what is let in under overload is what the machine does, and waits about as long as the bound; (GA3) it is
// shared as package fairshare says: evenly over users and their connections, low priority last; (GA4) a refusal takes
// no lock and allocates nothing.
//
// How long requests wait is told by whoever runs them, in Samples a few dozen times a second. When all samples of a
// while are above the bound, the gate closes: it lets in a part of what is asked for, by its price, which is made
// smaller while requests wait longer than the bound and no less than before, and larger while they wait less. Of
// requests that have themselves waited longer than the bound before they ask it lets in less at once, so that what a
// stall has left is gone soon and what comes after it is served. It opens when nothing has had to be refused for a
// while. A part, and not so much a second: requests that are executed one after the other ask one after the other, too,
// however many wait. The package reads no clock.
package gate

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
)

const (
	// SampleEvery is the time between two samples.
	SampleEvery = 20 * time.Millisecond
	// closeAfter is for how long all samples are above the bound before anything is refused, openAfter how long there
	// is no refusal before the gate opens.
	closeAfter, openAfter = 100 * time.Millisecond, time.Second
	// grain is how much of what was not let in may be later, as the time in which that much is asked for; reserve is
	// the part of it that those who have had most have to leave to others. grainMin is the least of it, in requests.
	grain, reserve = 20 * time.Millisecond, 0.6
	grainMin       = 64
	// service is how many times as long as without load requests may take that wait for something else than this
	// machine's processors, where that is above the bound: they may wait for a slow disk, or for other regions.
	service = 5
	// lightLoad is up to how many requests under way, for each processor, tell how long they take without load; so
	// many may always be under way.
	lightLoad = 512
	// letsMin is the least part that is let in.
	letsMin = 0.001
	// hasteMax is how many times as fast as later that part is found when the gate has just closed.
	hasteMax = 8
	// least is what any request counts for.
	least = ru.Unit
)

// Gate lets requests in, or refuses them. It is safe for concurrent use, but for Sample, of which one runs at a time.
type Gate struct {
	bound time.Duration
	// floor is how many requests may always wait.
	floor int64

	closed atomic.Bool
	// balance is what may be let in, in units: part of what is asked for is added, as the bits of a float64, up to
	// saved, and what is let in is taken off.
	balance atomic.Int64
	part    atomic.Uint64
	saved   atomic.Int64
	// patience is how long a request may have waited before less is let in of such, in nanoseconds.
	patience atomic.Int64
	// asked is what was asked for while it was closed, in units.
	asked  atomic.Int64
	shares fairshare.Shares

	refused, refusedLow atomic.Uint64

	// The rest belongs to Sample.
	last Sample
	// under and doing are how many requests are under way and done a second while they are few.
	under, doing float64
	// done are the requests that are done a second, lately, wants the units that are asked for.
	done, wants float64
	// over is how long requests waited or ran last, in times of how long they may; lately is how long they waited, over
	// several samples.
	over, lately float64
	// lets is the part that is let in while requests wait as long as they may, haste how many times as fast as later it
	// is changed.
	lets, haste float64
	// above and eager count samples in a row with too long and with short waits, calm those without a refusal.
	above, calm time.Duration
	eager       int
	told        uint64
	toldAsked   int64
}

// New makes a gate for a machine of so many processors that refuses requests where others wait for longer than bound;
// 0 refuses none.
func New(bound time.Duration, processors int) *Gate {
	return &Gate{bound: bound, floor: lightLoad * int64(processors)}
}

// Closed reports whether requests have to ask to be let in.
func (g *Gate) Closed() bool { return g.closed.Load() }

// Admit lets in a request that will cost about so much and has waited for so long; false if it is refused. now is the
// time since anything, as in samples.
func (g *Gate) Admit(c fairshare.Principal, cost ru.Units, waited, now time.Duration) bool {
	cost = max(cost, least)
	g.asked.Add(int64(cost))
	saved := g.saved.Load()
	part := math.Float64frombits(g.part.Load())
	if patience := time.Duration(g.patience.Load()); waited > patience {
		part *= less(float64(waited) / float64(patience))
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

// Stats say what the gate does.
type Stats struct {
	Closed bool
	// Refused are all requests that were, RefusedLow those of low priority among them.
	Refused, RefusedLow uint64
}

// Stats returns the figures.
func (g *Gate) Stats() Stats {
	return Stats{Closed: g.Closed(), Refused: g.refused.Load(), RefusedLow: g.refusedLow.Load()}
}

// Sample is how the machine does.
type Sample struct {
	Now time.Duration
	// Done are the requests that were done since the start, refusals not among them.
	Done int64
	// UnderWay are requests that were let in and are not done.
	UnderWay int64
	// Waited is how long requests waited for a processor since the last sample, on average.
	Waited time.Duration
}

// Sample tells how the machine does, and has the gate close, open, or let in more or less.
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

// steer says which part is let in next, when requests wait and run for so many times as long as they may: slowly, and
// at once a good deal less while too many are under way. While the wait becomes shorter the part is small enough.
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

// less is the part of what is let in otherwise that is let in of what has waited so many times as long as it may.
func less(over float64) float64 { return 1 - min(0.98, 0.3*max(0, over-1)) }

// waiting returns how long requests have waited before they were asked for, in times of how long they may: longer than
// the bound, where that is what the floor takes.
func (g *Gate) waiting(s Sample) float64 {
	// Also where next to nothing is done: other processes may have the processors, and nobody waits but they.
	patience := max(g.bound, time.Duration(float64(g.floor)/max(1, g.done)*float64(time.Second)))
	g.patience.Store(int64(patience))
	return float64(s.Waited) / float64(patience)
}

// running returns how long requests take that were let in, in times of how long they may. They take, by Little's law,
// their number by what is done a second; where they are few this is what they take without load.
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
