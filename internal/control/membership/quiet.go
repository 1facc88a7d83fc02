// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

const (
	// quietTime is how long a thing that was logged is not logged again.
	quietTime = 10 * time.Second
	// quietKeys bounds the things that are told apart.
	quietKeys = 256
)

// quiet keeps what happens again and again from filling the log: the first time is logged, then one in quietTime. The
// zero value is ready for use outside simulations.
type quiet struct {
	mu    sync.Mutex
	said  map[string]*saying
	sched *sched.Scheduler
}

type saying struct {
	at      time.Time
	omitted int
}

// allow reports whether to log something.
func (q *quiet) allow(key string) bool {
	_, ok := q.count(key)
	return ok
}

// count is allow, and tells how often the answer was no since the last yes.
func (q *quiet) count(key string) (omitted int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.sched.Now()
	if q.said == nil {
		q.said = map[string]*saying{}
	}
	s := q.said[key]
	if s == nil && len(q.said) >= quietKeys {
		for k, old := range q.said {
			if now.Sub(old.at) >= quietTime {
				delete(q.said, k)
			}
		}
		if len(q.said) >= quietKeys { // too many different things at once: they are one
			key = ""
			s = q.said[key]
		}
	}
	if s == nil {
		q.said[key] = &saying{at: now}
		return 0, true
	}
	if now.Sub(s.at) < quietTime {
		s.omitted++
		return 0, false
	}
	omitted = s.omitted
	s.at, s.omitted = now, 0
	return omitted, true
}
