// SPDX-License-Identifier: Apache-2.0

// Package trace collects the trace of one request. Each step of the request adds an event. The owner of the trace
// stores the events in system_traces, where clients can read them. A request that is not traced costs one nil check
// per step.
package trace

import (
	"context"
	"sync"
	"time"
)

// Event is one step of a traced request.
type Event struct {
	Activity string
	At       time.Time
}

// Trace collects the events of one request. A nil Trace discards events. A Trace is safe for concurrent use.
type Trace struct {
	ID      [16]byte
	Started time.Time
	max     int
	mu      sync.Mutex
	events  []Event
}

// EventsMax is the maximum number of events per request. Later events are dropped.
const EventsMax = 1000

// New returns a new trace.
func New(id [16]byte, started time.Time) *Trace {
	return &Trace{ID: id, Started: started, max: EventsMax}
}

// Add records a step. Add does nothing on a nil Trace, so callers need no nil check. Callers that format text should
// check for nil first to avoid the cost of formatting.
func (t *Trace) Add(activity string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	if len(t.events) < t.max {
		t.events = append(t.events, Event{activity, time.Now()})
	}
	t.mu.Unlock()
}

// Events returns a copy of the recorded events.
func (t *Trace) Events() []Event {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Event(nil), t.events...)
}

type contextKey struct{}

// With returns a context that contains t.
func With(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, contextKey{}, t)
}

// From returns the trace in ctx, or nil if ctx contains no trace.
func From(ctx context.Context) *Trace {
	t, _ := ctx.Value(contextKey{}).(*Trace)
	return t
}
