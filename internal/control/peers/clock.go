// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// A node's wall clock stamps what its leaders write and says what has expired. One that runs ahead would hide for as
// long all that drivers write afterwards, and remove what has still to live, also after it was set right. So it is held
// to what the clocks of a quorum of the nodes say: no calendar is trusted alone, the node's own included.
//
//	four clocks, in order:   a ─── b ═══ c ──────────── d      quorum 3: three say b or later, three say c or earlier
//	                               low   high
//	stamps                   ──────────────►│ low + clockTolerance
//	horizons                 ──►│ low - clockTolerance
//	may lead                    │◄─────────────►│ from low - clockTolerance to high + clockTolerance
//
// Where two of four nodes are wrong alike, or only two of three answer, low and high are apart: then nobody can tell
// which of them is right, all may lead, and stamps follow the earlier clocks.
const (
	// clockTolerance is how far a clock may be off: more than a report of another node takes on its way, less than
	// anybody notices.
	clockTolerance = time.Second
	// clockMemory is how long the clock of a node counts that is not heard from.
	clockMemory = 10 * time.Second
	// doubtMax is how long a node that has just begun doubts its own clock, if no quorum tells it better: then rather
	// a clock that nobody has looked at than no leader. While it doubts it asks every doubtEvery.
	doubtMax, doubtEvery = 5 * time.Second, 100 * time.Millisecond
	// clockBack is how far the clock may be before the newest stamp when a node starts: stamps may follow a condition
	// by a second, and clients' clocks differ.
	clockBack = 5 * time.Second
)

// SetBack returns how far now is before the newest stamp of a node that starts, 0 for little enough. A node that stands
// alone has nothing else to compare its clock with: writes go on above the newest stamp, and those of clients with
// timestamps of their own may stay invisible until the clock has passed it.
func SetBack(now, newest time.Time) time.Duration {
	if behind := newest.Sub(now); behind > clockBack {
		return behind
	}
	return 0
}

// held is what the clocks of a quorum said at an instant of the monotonic clock.
type held struct {
	at        time.Duration
	low, high time.Time
}

// Now is the wall clock of this node as far as the clocks of a quorum allow (PE3). A jump of the own clock is noticed
// at once: since the others were heard last, time has gone on by the monotonic clock.
func (p *Peers) Now() time.Time {
	now := p.opts.Now()
	h := p.held.Load()
	if h == nil {
		return now
	}
	since := p.opts.Steady() - h.at
	most := h.low.Add(since + clockTolerance)
	if now.After(most) {
		return most
	}
	if least := h.high.Add(since - clockTolerance); now.Before(least) && least.Before(most) {
		return least
	}
	return now
}

// Past is an instant that has passed by the clocks of a quorum: what has expired by then has expired (PE3).
func (p *Peers) Past() time.Time {
	now := p.opts.Now()
	if h := p.held.Load(); h != nil {
		if low := h.low.Add(p.opts.Steady() - h.at); low.Before(now) {
			now = low
		}
	}
	return now.Add(-clockTolerance)
}

// Ahead is how much later the clock of this node is than any that a quorum could agree on, negative for earlier, 0 if
// it is right: a node whose clock is wrong should not lead.
func (p *Peers) Ahead() time.Duration {
	h := p.held.Load()
	if h == nil {
		return 0
	}
	now, since := p.opts.Now(), p.opts.Steady()-h.at
	if over := now.Sub(h.high.Add(since)); over > clockTolerance {
		return over
	}
	if under := now.Sub(h.low.Add(since)); under < -clockTolerance {
		return under
	}
	return 0
}

// Skewed returns the nodes whose clocks are wrong by what a quorum says, as far as this node has heard of them lately.
func (p *Peers) Skewed() map[topology.NodeID]bool {
	out := map[topology.NodeID]bool{}
	h := p.held.Load()
	if h == nil {
		return out
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, q := range p.peers {
		if q.heard.IsZero() || p.opts.Steady()-q.clockAt > clockMemory {
			continue
		}
		at := q.clock.Add(h.at - q.clockAt)
		out[n] = at.After(h.high.Add(clockTolerance)) || at.Before(h.low.Add(-clockTolerance))
	}
	return out
}

// hold computes what the clocks of a quorum say now. mu is held.
func (p *Peers) hold() {
	if len(p.peers) == 0 {
		p.held.Store(nil) // alone, the node has nobody to compare with
		return
	}
	now := p.opts.Steady()
	clocks := []time.Time{p.opts.Now().Round(0)}
	for _, q := range p.peers {
		if !q.heard.IsZero() && now-q.clockAt <= clockMemory {
			clocks = append(clocks, q.clock.Add(now-q.clockAt))
		}
	}
	quorum := topology.Quorum(len(p.peers) + 1)
	if len(clocks) < quorum {
		return // what the others said last goes on by the monotonic clock
	}
	slices.SortFunc(clocks, time.Time.Compare)
	p.held.Store(&held{at: now, low: clocks[len(clocks)-quorum], high: clocks[quorum-1]})
}

// doubts reports whether no quorum has said yet what its clocks show, so that the node's own may be anything: the node
// has just begun, or was alone until now.
func (p *Peers) doubts() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers) > 0 && p.held.Load() == nil && p.opts.Steady()-p.met < doubtMax
}

// watchClock tells the owner whether the node's clock is wrong or in doubt, when that has changed.
func (p *Peers) watchClock() {
	ahead := p.Ahead()
	skewed := ahead != 0 || p.doubts()
	if p.skewed.Swap(skewed) != skewed && p.opts.Skewed != nil {
		p.opts.Skewed(skewed, ahead)
	}
}
