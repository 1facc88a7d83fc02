// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"maps"
	"slices"

	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

const (
	// SecondsMost and MinutesMost are how much history there is.
	SecondsMost = 120
	MinutesMost = 60
	// topKept is how many logical partitions are kept of minutes before the last one.
	topKept = 3
)

// Spent is what was spent in a second or a minute.
type Spent struct {
	// At is when it began, in seconds since the epoch.
	At       int64    `json:"at"`
	Units    ru.Units `json:"units"`
	Requests uint64   `json:"requests"`
	Bytes    uint64   `json:"bytes"`
	// Throttled are the requests that were refused because the partition had spent what it may take.
	Throttled uint64 `json:"throttled,omitempty"`
	// Given are the request units that it was given for that time, 0 without a throughput.
	Given int64 `json:"given,omitempty"`
}

// Utilisation is the part of what was given that was spent, 0 without a throughput.
func (s *Spent) Utilisation() float64 {
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

// Minute is what was spent in a minute.
type Minute struct {
	Spent
	// Peak is the most that was spent in a second, PeakGiven what was given for that, in request units.
	Peak      ru.Units `json:"peak"`
	PeakGiven int64    `json:"peak_given,omitempty"`
	// Top are the logical partitions that took most.
	Top `json:"top"`
}

// history is what was spent when, in rings.
type history struct {
	// last and throttled are the counts up to at, a second since the epoch.
	last      Counts
	throttled uint64
	at        int64
	seconds   []Spent
	// minutes are those that have ended, oldest first; now is the one that has not.
	minutes []Minute
	now     Minute
	// hot is since when the partition has been hot, 0 if it is not.
	hot int64
}

// Bounds is what a partition may take, and has refused.
type Bounds struct {
	// PerSecond is in request units, 0 if there is no bound. Throttled counts since the replica was opened.
	PerSecond int64
	Throttled uint64
}

// Tick notes what was spent since it was called last; callers do so once a second. now is in seconds since the epoch. A
// clock that goes back stands still here.
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
	spent := Spent{At: now - 1, Units: c.Total() - h.last.Total(), Requests: c.Asked() - h.last.Asked(),
		Bytes:     c.BytesRead + c.BytesWritten - h.last.BytesRead - h.last.BytesWritten,
		Throttled: b.Throttled - h.throttled, Given: b.PerSecond}
	h.last, h.throttled, h.at = c, b.Throttled, now
	if minute := spent.At - spent.At%60; h.now.At == 0 {
		h.now.At = minute
	} else if minute != h.now.At {
		p.endMinute(minute) // it was called late
	}
	h.seconds = appendMost(h.seconds, spent, SecondsMost)
	if peak := spent.Units / ru.Units(passed); peak > h.now.Peak {
		h.now.Peak, h.now.PeakGiven = peak, spent.Given
	}
	at := h.now.At
	spent.Given *= min(passed, 60)
	h.now.add(&spent)
	h.now.At = at
	if t := p.heavy; t != nil {
		t.second(passed)
		if t.noted < notesMax*2/5 {
			p.slower()
		}
		t.noted = 0
	}
	h.judge(now, b.PerSecond)
	if minute := now - now%60; minute != h.now.At {
		p.endMinute(minute)
	}
}

// slower has more requests noted.
func (p *Partition) slower() {
	step := p.step.Load() / 2
	if step < int64(ru.Unit) {
		step = 0
	}
	p.step.Store(step)
}

// idle reports whether nothing is kept.
func (p *Partition) idle() bool { return p.history.seconds == nil && p.heavy == nil }

// past is the history to be read: most replicas of a node with many have none. The caller holds mu.
func (p *Partition) past() *history {
	if p.history == nil {
		return &history{}
	}
	return p.history
}

// endMinute keeps what was spent in the minute that has ended, and begins another one.
func (p *Partition) endMinute(next int64) {
	h, t := p.history, p.heavy
	if h.now.Requests > 0 || h.now.Throttled > 0 {
		if t != nil {
			h.now.Top = t.top(TopMost, nil, byUnits)
			t.minute(p.step.Load())
		}
		if n := len(h.minutes); n > 0 {
			last := &h.minutes[n-1]
			last.Keys = slices.Clone(last.Keys[:min(len(last.Keys), topKept)])
		}
		h.minutes = appendMost(h.minutes, h.now, MinutesMost)
	} else if t != nil && t.total == 0 {
		p.heavy = nil // nobody has asked for a minute
	}
	oldest := next - 60*MinutesMost
	h.minutes = slices.DeleteFunc(h.minutes, func(m Minute) bool { return m.At < oldest })
	h.now = Minute{Spent: Spent{At: next}}
	if len(h.minutes) == 0 && p.heavy == nil {
		*h = history{last: h.last, throttled: h.throttled, at: h.at}
	}
}

// appendMost appends to a list of at most so many, of which the oldest goes.
func appendMost[T any](list []T, v T, most int) []T {
	if len(list) == most {
		copy(list, list[1:])
		list = list[:most-1]
	}
	return append(list, v)
}

// Seconds are what was spent in the last two minutes, oldest first. A second in which nobody asked may be missing.
func (p *Partition) Seconds() []Spent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.past().seconds)
}

// Minutes are what was spent in the last hour, oldest first; the last one may not be over yet. One in which nobody
// asked may be missing.
func (p *Partition) Minutes() []Minute {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.past().minutes)
	if now := p.past().now; now.Requests > 0 || now.Throttled > 0 {
		if t := p.heavy; t != nil {
			now.Top = t.top(TopMost, nil, byUnits)
		}
		out = append(out, now)
	}
	return out
}

// Hottest are the n logical partitions that take most a second now, of those that holds is true for; nil is all. Units
// are those of the minute that is not over.
func (p *Partition) Hottest(n int, holds func(token.Token) bool) Top {
	p.mu.Lock()
	if p.heavy == nil {
		p.mu.Unlock()
		return Top{}
	}
	t := *p.heavy // sorting takes longer than requests should wait
	t.named = maps.Clone(t.named)
	p.mu.Unlock()
	return t.top(n, holds, byRecent)
}
