// SPDX-License-Identifier: Apache-2.0

// Package lograte limits the rate of log messages about recurring events.
package lograte

import (
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

const (
	// Interval is the default of Limiter.Interval.
	Interval = 10 * time.Second
	// keysMax is the maximum number of keys of a Limiter.
	keysMax = 256
)

// Limiter limits the rate of log messages. It allows the first message with a key, and then one message per interval.
// It is safe for concurrent use. The zero value is ready for use outside simulations.
type Limiter struct {
	// Interval is the minimum time between two messages with the same key.
	Interval time.Duration
	// Sched provides the time. It is nil outside simulations.
	Sched *sched.Scheduler

	mu   sync.Mutex
	keys map[string]*state
}

// state is the time of the last message with a key and the number of messages omitted since this time.
type state struct {
	at      time.Time
	omitted int
}

// Allow reports whether to log a message with a key.
func (l *Limiter) Allow(key string) bool {
	_, ok := l.Count(key)
	return ok
}

// Count reports whether to log a message with a key. omitted is the number of messages with this key that were omitted
// since the last logged message.
func (l *Limiter) Count(key string) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, interval := l.Sched.Now(), l.Interval
	if interval == 0 {
		interval = Interval
	}
	if l.keys == nil {
		l.keys = map[string]*state{}
	}
	s := l.keys[key]
	if s == nil && len(l.keys) >= keysMax {
		for k, old := range l.keys {
			if now.Sub(old.at) >= interval {
				delete(l.keys, k)
			}
		}
		if len(l.keys) >= keysMax { // treat all keys as one key
			key = ""
			s = l.keys[key]
		}
	}
	if s == nil {
		l.keys[key] = &state{at: now}
		return 0, true
	}
	if now.Sub(s.at) < interval {
		s.omitted++
		return 0, false
	}
	omitted = s.omitted
	s.at, s.omitted = now, 0
	return omitted, true
}
