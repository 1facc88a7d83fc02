// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
)

// A node's wall clock provides the timestamps of the writes that its leaders accept, and decides what has expired. A
// clock that is ahead would hide later writes and expire data too early, even after its correction. Therefore, the node
// limits its clock by the clocks of a quorum of nodes.
//
//	four clocks, in order:   a ─── b ═══ c ──────────── d      quorum 3: three show b or later, three c or earlier
//	                               low   high
//	timestamps                 ──────────────►│ low + clockTolerance
//	expiration               ──►│ low - clockTolerance
//	may lead                    │◄─────────────►│ from low - clockTolerance to high + clockTolerance
//
// If two of four clocks are wrong in the same way, or only two of three nodes respond, low and high differ. The correct
// clock is then unknown. In this case, all nodes may lead, and timestamps follow the earlier clocks.
const (
	// clockTolerance is the permitted clock error. It exceeds the network delay of a report and is too small to affect
	// clients.
	clockTolerance = time.Second
	// clockReportTTL is the time for which the clock of a node counts after its last report.
	clockReportTTL = 10 * time.Second
	// unverifiedMax is the maximum time for which a started node considers its clock unverified if no quorum has
	// reported. The node may lead after this time, because an unverified clock is better than no leader. Until then, it
	// polls the other nodes every unverifiedInterval.
	unverifiedMax, unverifiedInterval = 5 * time.Second, 100 * time.Millisecond
	// regressionMin is the maximum time by which the clock of a starting node may be behind its newest timestamp.
	// Conditional writes and the clocks of clients can cause timestamps ahead of the clock.
	regressionMin = 5 * time.Second
)

// ClockRegression returns the time by which now is behind the newest timestamp of a starting node, or 0 if the
// difference is small. A standalone node continues above the newest timestamp. Writes with client timestamps may remain
// invisible until the clock has passed the newest timestamp.
func ClockRegression(now, newest time.Time) time.Duration {
	if behind := newest.Sub(now); behind > regressionMin {
		return behind
	}
	return 0
}

// clockBounds holds the bounds of a quorum's clocks at an instant of the monotonic clock.
type clockBounds struct {
	at        time.Duration
	low, high time.Time
}

// Wall returns the wall clock of this node, limited by the clocks of a quorum (PE3). A jump of the node's own clock has
// no effect, because the bounds advance with the monotonic clock.
func (p *Peers) Wall() time.Time {
	now := p.clock.Wall()
	h := p.bounds.Load()
	if h == nil {
		return now
	}
	since := p.steady() - h.at
	most := h.low.Add(since + clockTolerance)
	if now.After(most) {
		return most
	}
	if least := h.high.Add(since - clockTolerance); now.Before(least) && least.Before(most) {
		return least
	}
	return now
}

// EarliestNow returns a time that has passed according to the clocks of a quorum (PE3). Data that expires before this
// time has expired.
func (p *Peers) EarliestNow() time.Time {
	now := p.clock.Wall()
	if h := p.bounds.Load(); h != nil {
		if low := h.low.Add(p.steady() - h.at); low.Before(now) {
			now = low
		}
	}
	return now.Add(-clockTolerance)
}

// ClockOffset returns the time by which this node's clock is outside the bounds of a quorum. It is positive if the
// clock is ahead, negative if the clock is behind, and 0 if the clock is correct. A node with an incorrect clock should
// not lead.
func (p *Peers) ClockOffset() time.Duration {
	h := p.bounds.Load()
	if h == nil {
		return 0
	}
	now, since := p.clock.Wall(), p.steady()-h.at
	if over := now.Sub(h.high.Add(since)); over > clockTolerance {
		return over
	}
	if under := now.Sub(h.low.Add(since)); under < -clockTolerance {
		return under
	}
	return 0
}

// Skewed reports whether the clocks of nodes with recent reports are incorrect according to a quorum.
func (p *Peers) Skewed() map[topology.NodeID]bool {
	out := map[topology.NodeID]bool{}
	h := p.bounds.Load()
	if h == nil {
		return out
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, q := range p.peers {
		if q.reportedAt.IsZero() || p.steady()-q.clockAt > clockReportTTL {
			continue
		}
		at := q.clock.Add(h.at - q.clockAt)
		out[n] = at.After(h.high.Add(clockTolerance)) || at.Before(h.low.Add(-clockTolerance))
	}
	return out
}

// updateBounds computes the clock bounds of a quorum. The caller must hold mu.
func (p *Peers) updateBounds() {
	if len(p.peers) == 0 {
		p.bounds.Store(nil) // no other node is available for a comparison
		return
	}
	now := p.steady()
	clocks := []time.Time{p.clock.Wall().Round(0)}
	for _, q := range p.peers {
		if !q.reportedAt.IsZero() && now-q.clockAt <= clockReportTTL {
			clocks = append(clocks, q.clock.Add(now-q.clockAt))
		}
	}
	quorum := topology.Quorum(len(p.peers) + 1)
	if len(clocks) < quorum {
		return // the previous bounds advance with the monotonic clock
	}
	slices.SortFunc(clocks, time.Time.Compare)
	p.bounds.Store(&clockBounds{at: now, low: clocks[len(clocks)-quorum], high: clocks[quorum-1]})
}

// clockUnverified reports whether no quorum of nodes has reported its clocks yet.
func (p *Peers) clockUnverified() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.peers) > 0 && p.bounds.Load() == nil && p.steady()-p.firstWatch < unverifiedMax
}

// watchClock calls Observer.ClockSkewed when the clock becomes incorrect, unverified, or correct again.
func (p *Peers) watchClock() {
	ahead := p.ClockOffset()
	skewed := ahead != 0 || p.clockUnverified()
	if p.skewed.Swap(skewed) != skewed {
		p.opts.Observer.ClockSkewed(skewed, ahead)
	}
}
