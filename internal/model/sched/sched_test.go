// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var background = context.Background()

// TestTheRealThing checks that a nil Scheduler waits in the same way as package time and select. It waits for a value,
// a context, a timeout, and an end.
func TestTheRealThing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Scheduler
		ready, end := make(chan int, 1), make(chan struct{})
		s.AfterFunc(time.Second, func() { ready <- 7 })
		if v, err := Await(s, background, ready, 2*time.Second, end); v != 7 || err != nil {
			t.Error(v, err)
		}
		if _, err := Await(s, background, ready, time.Second, nil, end); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		short, cancel := s.WithTimeout(background, time.Second)
		defer cancel()
		if _, err := Await(s, short, ready, 2*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := s.Sleep(short, time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		began := s.Now()
		if err := s.Sleep(background, time.Second); err != nil || s.Since(began) != time.Second ||
			s.Until(began) != -time.Second {
			t.Error(err, s.Since(began))
		}
		var g Group
		g.Go(func() { close(end) })
		g.Wait()
		if _, err := Await(s, background, ready, time.Second, nil, end); !errors.Is(err, ErrEnded) {
			t.Error(err)
		}
		if s.Sleep(background, time.Hour, end) != nil || s.Since(began) != time.Second {
			t.Error("a signal does not end a sleep")
		}
	})
}

// TestRealWaitsAllocateNothing checks that waiting through a nil Scheduler does not allocate memory. The test also
// checks that a ready value is received as in a select.
func TestRealWaitsAllocateNothing(t *testing.T) {
	var s *Scheduler
	ready, end := make(chan error, 1), make(chan struct{})
	if n := testing.AllocsPerRun(100, func() {
		ready <- nil
		_, _ = Await(s, background, ready, 0, end)
		_, _ = s.Now(), s.Boot()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// manual is a driver with a clock that the test advances. A wait succeeds if its condition holds, and fails otherwise.
type manual struct {
	now    time.Time
	timers []func()
}

func (m *manual) Now() time.Time      { return m.now }
func (m *manual) Wall() time.Time     { return m.now.Add(time.Hour) }
func (m *manual) Boot() time.Duration { return time.Minute }
func (m *manual) Go(f func())         { f() }

func (m *manual) Wait(ctx context.Context, ready func() bool, _ time.Duration) error {
	if ready() {
		return nil
	}
	return errors.Join(ctx.Err(), ErrEnded)
}

func (m *manual) AfterFunc(_ time.Duration, f func()) Timer {
	m.timers = append(m.timers, f)
	return time.AfterFunc(time.Hour, func() {})
}

// TestDriven checks that all clocks, goroutines, waits, and deadlines use the driver.
func TestDriven(t *testing.T) {
	m := &manual{now: time.Unix(1000, 0)}
	s := Driven(m)
	if s.Now() != m.now || s.Wall() != m.Wall() || s.Boot() != time.Minute {
		t.Error("other clocks")
	}
	outer, cancelOuter := s.WithTimeout(background, time.Second)
	inner, cancelInner := s.WithTimeout(outer, 2*time.Second)
	derived, cancel := context.WithCancel(inner)
	defer cancel()
	if at, ok := inner.Deadline(); !ok || at != m.now.Add(time.Second) || inner.Err() != nil {
		t.Error(at, inner.Err())
	}
	m.timers[0]()
	for _, ctx := range []context.Context{outer, inner} {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Error(ctx.Err())
		}
	}
	if derived.Err() == nil || !errors.Is(context.Cause(derived), context.DeadlineExceeded) {
		t.Error(derived.Err(), context.Cause(derived))
	}
	cancelInner()
	cancelOuter()
	canceled, cancel := s.WithTimeout(background, time.Second)
	cancel()
	if !errors.Is(canceled.Err(), context.Canceled) {
		t.Error(canceled.Err())
	}
	if past, _ := s.WithDeadline(background, m.now); !errors.Is(past.Err(), context.DeadlineExceeded) {
		t.Error(past.Err())
	}
	ready, end := make(chan int, 1), make(chan struct{})
	ready <- 3
	if v, err := Await(s, background, ready, 0, end); v != 3 || err != nil {
		t.Error(v, err)
	}
	close(end)
	if _, err := Await(s, background, ready, 0, end); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	ran := 0
	g := Group{Scheduler: s}
	g.Go(func() { ran++ })
	g.Wait()
	stop := s.AfterDone(canceled, func() { ran++ })
	if ran != 2 || stop() {
		t.Error("not run", ran)
	}
}
