// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// deadlineList ends write requests at their deadlines. A local leader that is disconnected from its peers cannot
// determine the outcome of a write, and does not enforce deadlines. The list is ordered by deadline. This order nearly
// always equals the order of arrival, because only client timeouts differ. A single timer is set for the first request.
type deadlineList struct {
	mu          sync.Mutex
	first, last *writeRequest
	timer       sched.Timer
	sched       *sched.Scheduler
	armed       bool
}

func (w *deadlineList) add(s *writeRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := w.last
	for after != nil && after.deadline.After(s.deadline) {
		after = after.prev
	}
	s.prev = after
	if after != nil {
		s.next, after.next = after.next, s
	} else {
		s.next, w.first = w.first, s
	}
	if s.next != nil {
		s.next.prev = s
	} else {
		w.last = s
	}
	s.watched = true
	if !w.armed || after == nil && s.next != nil {
		w.arm(s.deadline)
	}
}

func (w *deadlineList) arm(at time.Time) {
	w.armed = true
	wait := max(w.sched.Until(at), time.Millisecond)
	if w.timer == nil {
		w.timer = w.sched.AfterFunc(wait, w.expire)
		return
	}
	w.timer.Reset(wait)
}

// drop removes a request. A second call has no effect.
func (w *deadlineList) drop(s *writeRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.watched {
		w.unlink(s)
	}
}

func (w *deadlineList) unlink(s *writeRequest) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		w.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		w.last = s.prev
	}
	s.prev, s.next, s.watched = nil, nil, false
}

// expire ends all requests whose deadline has passed, and sets the timer for the next request.
func (w *deadlineList) expire() {
	var late []*writeRequest
	w.mu.Lock()
	now := w.sched.Now()
	for w.first != nil && !w.first.deadline.After(now) {
		s := w.first
		w.unlink(s)
		// The request must be marked while the mutex is held. Otherwise, the completion of the request could reuse the
		// request before expire is called.
		if s.expire() {
			late = append(late, s)
		}
	}
	w.armed = false
	if w.first != nil {
		w.arm(w.first.deadline)
	}
	w.mu.Unlock()
	for _, s := range late {
		s.reportTimeout()
	}
}
