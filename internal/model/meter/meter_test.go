// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/test/fakeclock"
)

// TestMemory checks that reserved memory belongs to the pool until it is released (ME1). A reservation above either
// limit must be rejected.
func TestMemory(t *testing.T) {
	pool := NewPool(1 << 20)
	m := New(t.Context(), Limits{Pool: pool, Bytes: 900 << 10})
	if err := m.Alloc(1000); err != nil || pool.Used() != 0 {
		t.Errorf("a thousand bytes: %v, %d of the pool", err, pool.Used())
	}
	mark := m.Mark()
	for range 100 {
		if err := m.Alloc(300 << 10); err != nil {
			t.Fatal(err)
		}
		m.Release(mark)
	}
	if err := m.Keep(500 << 10); err != nil {
		t.Fatal(err)
	}
	var invalid *dberr.Invalid
	if err := m.Alloc(500 << 10); !errors.As(err, &invalid) || m.Step(1) == nil || m.Err() == nil {
		t.Errorf("above the bound of one: %v", err)
	}
	other := New(t.Context(), Limits{Pool: pool})
	var busy *dberr.Overloaded
	if err := other.Alloc(800 << 10); !errors.As(err, &busy) {
		t.Errorf("above the pool: %v", err)
	}
	m.Close()
	other.Close()
	if pool.Used() != 0 {
		t.Errorf("%d bytes are left in use", pool.Used())
	}
	var none *Meter
	none.Close()
	none.Pause()
	if none.Alloc(1<<40) != nil || none.Step(1<<40) != nil || none.Excess() != 0 || none.Exhausted() {
		t.Error("a nil meter bounds something")
	}
}

// TestWork checks that an evaluation ends at its work limit, at its deadline, and with its context (ME2). Reading rows
// must raise the work limit.
func TestWork(t *testing.T) {
	m := New(t.Context(), Limits{Steps: 10_000})
	m.Allow(5_000)
	steps := 0
	for ; m.Step(10) == nil; steps += 10 {
	}
	if steps < 15_000-stride || steps > 15_000+2*stride || !m.Exhausted() || m.Excess() < 10_000-stride {
		t.Errorf("ended after %d steps, %d beyond the allowance", steps, m.Excess())
	}
	now := time.Unix(0, 0)
	m = New(t.Context(), Limits{Deadline: time.Unix(5, 0), Clock: fakeclock.Func(func() time.Time { return now })})
	if err := m.Step(stride); err != nil {
		t.Error(err)
	}
	now = time.Unix(5, 0)
	if err := m.Step(stride); !errors.Is(err, context.DeadlineExceeded) || !m.Exhausted() {
		t.Errorf("at its deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m = New(ctx, Limits{})
	cancel()
	if err := m.Step(stride); !errors.Is(err, context.Canceled) || m.Exhausted() {
		t.Errorf("without its client: %v", err)
	}
}

// TestTurns checks that an evaluation that has used up its turn acquires a slot (ME3). The evaluation must release the
// slot before it waits and at its end. It must not wait for a slot longer than until its deadline.
func TestTurns(t *testing.T) {
	slots := fairshare.NewSlots(1, func() time.Duration { return 0 })
	first := New(t.Context(), Limits{Slots: slots})
	first.ran = turn
	if err := first.Step(stride); err != nil || slots.Used() != 1 {
		t.Fatalf("%v, %d slots are in use", err, slots.Used())
	}
	second := New(t.Context(), Limits{Slots: slots, Deadline: time.Now().Add(time.Millisecond),
		Clock: sched.SystemClock})
	second.ran = turn
	if err := second.Step(stride); !errors.Is(err, context.DeadlineExceeded) || !second.Exhausted() {
		t.Errorf("without a free slot: %v", err)
	}
	first.Pause()
	if slots.Used() != 0 {
		t.Error("an evaluation that waits keeps its slot")
	}
	first.ran = turn
	if err := first.Step(stride); err != nil {
		t.Fatal(err)
	}
	first.Close()
	second.Close()
	if slots.Used() != 0 {
		t.Error("an evaluation that has ended keeps its slot")
	}
}
