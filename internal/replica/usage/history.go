// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// SecondsMax is the number of seconds in the history.
	SecondsMax = 120
	// MinutesMax is the number of minutes in the history.
	MinutesMax = 60
	// topKept is the number of logical partitions recorded for each minute except the last minute.
	topKept = 3
)

// Spent holds the resources spent in a second or a minute.
type Spent struct {
	// At is the start of the interval, in seconds since the epoch.
	At       int64    `json:"at"`
	Units    ru.Units `json:"units"`
	Requests uint64   `json:"requests"`
	Bytes    uint64   `json:"bytes"`
	// Throttled counts the requests that were rejected because the partition had exceeded its throughput.
	Throttled uint64 `json:"throttled,omitempty"`
	// Given is the throughput of the interval in request units, or 0 if the throughput is not limited.
	Given int64 `json:"given,omitempty"`
}

// Utilization returns the spent fraction of the throughput, or 0 if the throughput is not limited.
func (s *Spent) Utilization() float64 {
	if s.Given <= 0 {
		return 0
	}
	return s.Units.Float() / float64(s.Given)
}

func (s *Spent) add(d *Spent) {
	s.Units += d.Units
	s.Requests += d.Requests
	s.Bytes += d.Bytes
	s.Throttled += d.Throttled
	s.Given += d.Given
}

// Minute holds the resources spent in a minute.
type Minute struct {
	Spent
	// Peak is the highest number of units spent in a second. PeakGiven is the throughput of that second in request
	// units.
	Peak      ru.Units `json:"peak"`
	PeakGiven int64    `json:"peak_given,omitempty"`
	// Top holds the logical partitions with the highest load.
	Top `json:"top"`
}

// history holds the resources spent over time in ring buffers.
type history struct {
	// last and throttled are the counts at the time at, which is in seconds since the epoch.
	last      Counts
	throttled uint64
	at        int64
	seconds   []Spent
	// minutes holds the completed minutes, oldest first. now is the current minute.
	minutes []Minute
	now     Minute
	// hot is the time since which the partition has been hot, or 0 if it is not hot.
	hot int64
}

// Bounds holds the throughput limit of a partition and the number of its rejections.
type Bounds struct {
	// PerSecond is the limit in request units per second, or 0 if the throughput is not limited. Throttled counts
	// rejections since the replica was opened.
	PerSecond int64
	Throttled uint64
}

// Tick records the resources spent since the previous call. It must be called once per second. now is in seconds since
// the epoch. If the clock moves back, Tick has no effect until the clock reaches the previous time.
func (p *Partition) Tick(now int64, b Bounds) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, c := p.history, p.Counts()
	if h == nil {
		if c == (Counts{}) && b.Throttled == 0 {
			return
		}
		h = &history{at: now - 1}
		p.history = h
	}
	if c == h.last && b.Throttled == h.throttled && p.idle() {
		h.at = now
		return
	}
	passed := now - h.at
	if passed <= 0 {
		return
	}
	spent := Spent{At: now - 1, Units: c.Total() - h.last.Total(), Requests: c.RequestCount() - h.last.RequestCount(),
		Bytes:     c.BytesRead + c.BytesWritten - h.last.BytesRead - h.last.BytesWritten,
		Throttled: b.Throttled - h.throttled, Given: b.PerSecond}
	h.last, h.throttled, h.at = c, b.Throttled, now
	if minute := spent.At - spent.At%60; h.now.At == 0 {
		h.now.At = minute
	} else if minute != h.now.At {
		p.endMinute(minute) // this call is late
	}
	h.seconds = appendMost(h.seconds, spent, SecondsMax)
	if peak := spent.Units / ru.Units(passed); peak > h.now.Peak {
		h.now.Peak, h.now.PeakGiven = peak, spent.Given
	}
	at := h.now.At
	spent.Given *= min(passed, 60)
	h.now.add(&spent)
	h.now.At = at
	if t := p.heavy; t != nil {
		t.endSecond(passed)
		if t.noted < notesMax*2/5 {
			p.lowerStep()
		}
		t.noted = 0
	}
	h.updateHot(now, b.PerSecond)
	if minute := now - now%60; minute != h.now.At {
		p.endMinute(minute)
	}
}

// lowerStep halves the sampling step, so that more requests are recorded.
func (p *Partition) lowerStep() {
	step := p.step.Load() / 2
	if step < int64(ru.Unit) {
		step = 0
	}
	p.step.Store(step)
}

// idle reports whether the history is empty.
func (p *Partition) idle() bool { return p.history.seconds == nil && p.heavy == nil }

// readHistory returns the history for reading, which may be empty. The caller must hold mu.
func (p *Partition) readHistory() *history {
	if p.history == nil {
		return &history{}
	}
	return p.history
}

// endMinute stores the completed minute and starts the next minute.
func (p *Partition) endMinute(next int64) {
	h, t := p.history, p.heavy
	if h.now.Requests > 0 || h.now.Throttled > 0 {
		if t != nil {
			h.now.Top = t.top(TopMax, nil, byUnits)
			t.endMinute(p.step.Load())
		}
		if n := len(h.minutes); n > 0 {
			last := &h.minutes[n-1]
			last.Keys = slices.Clone(last.Keys[:min(len(last.Keys), topKept)])
		}
		h.minutes = appendMost(h.minutes, h.now, MinutesMax)
	} else if t != nil && t.total == 0 {
		p.heavy = nil // no requests have arrived for a minute
	}
	oldest := next - 60*MinutesMax
	h.minutes = slices.DeleteFunc(h.minutes, func(m Minute) bool { return m.At < oldest })
	h.now = Minute{Spent: Spent{At: next}}
	if len(h.minutes) == 0 && p.heavy == nil {
		*h = history{last: h.last, throttled: h.throttled, at: h.at}
	}
}

// appendMost appends v to a list and drops the oldest element if the length exceeds most.
func appendMost[T any](list []T, v T, most int) []T {
	if len(list) == most {
		copy(list, list[1:])
		list = list[:most-1]
	}
	return append(list, v)
}

// Seconds returns the resources spent in each of the last 120 seconds, oldest first. Seconds without requests may be
// missing.
func (p *Partition) Seconds() []Spent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.readHistory().seconds)
}

// Minutes returns the resources spent in each minute of the last hour, oldest first. The last minute may be incomplete.
// Minutes without requests may be missing.
func (p *Partition) Minutes() []Minute {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.readHistory().minutes)
	if now := p.readHistory().now; now.Requests > 0 || now.Throttled > 0 {
		if t := p.heavy; t != nil {
			now.Top = t.top(TopMax, nil, byUnits)
		}
		out = append(out, now)
	}
	return out
}

// Hottest returns the n logical partitions with the highest current load for which holds returns true. If holds is nil,
// Hottest considers all partitions. Units contains the units of the current minute.
func (p *Partition) Hottest(n int, holds func(token.Token) bool) Top {
	p.mu.Lock()
	if p.heavy == nil {
		p.mu.Unlock()
		return Top{}
	}
	t := *p.heavy // sort the copy outside the lock, so that requests do not wait
	t.named = maps.Clone(t.named)
	p.mu.Unlock()
	return t.top(n, holds, byRecent)
}
