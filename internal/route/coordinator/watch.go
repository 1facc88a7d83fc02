// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
)

// watch ends sends at their deadlines. A replica on this node that leads and is cut off cannot say how a write ends,
// and has no deadline of its own. Sends are kept in the order of their deadlines, which is nearly always the order in
// which they came: only clients that set a timeout have less time than others. One timer looks at the first send.
type watch struct {
	mu          sync.Mutex
	first, last *send
	timer       sched.Timer
	sched       *sched.Scheduler
	armed       bool
}

// add takes a send in.
func (w *watch) add(s *send) {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := w.last
	for after != nil && after.deadline.After(s.deadline) {
		after = after.before
	}
	s.before = after
	if after != nil {
		s.behind, after.behind = after.behind, s
	} else {
		s.behind, w.first = w.first, s
	}
	if s.behind != nil {
		s.behind.before = s
	} else {
		w.last = s
	}
	s.watched = true
	if !w.armed || after == nil && s.behind != nil {
		w.arm(s.deadline)
	}
}

func (w *watch) arm(at time.Time) {
	w.armed = true
	wait := max(w.sched.Until(at), time.Millisecond)
	if w.timer == nil {
		w.timer = w.sched.AfterFunc(wait, w.look)
		return
	}
	w.timer.Reset(wait)
}

// drop forgets a send; twice does no harm.
func (w *watch) drop(s *send) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.watched {
		w.unlink(s)
	}
}

func (w *watch) unlink(s *send) {
	if s.before != nil {
		s.before.behind = s.behind
	} else {
		w.first = s.behind
	}
	if s.behind != nil {
		s.behind.before = s.before
	} else {
		w.last = s.before
	}
	s.before, s.behind, s.watched = nil, nil, false
}

// look ends what is late, and comes back for the next.
func (w *watch) look() {
	var late []*send
	w.mu.Lock()
	now := w.sched.Now()
	for w.first != nil && !w.first.deadline.After(now) {
		s := w.first
		w.unlink(s)
		// Here, under the mutex: a completion that drops the send first keeps it, and may reuse it at once.
		if s.answered.CompareAndSwap(false, true) {
			late = append(late, s)
		}
	}
	w.armed = false
	if w.first != nil {
		w.arm(w.first.deadline)
	}
	w.mu.Unlock()
	for _, s := range late {
		s.late()
	}
}
