// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"testing"
	"time"
)

// TestTimersAfterWaking checks that a timer fires when its time has passed on the monotonic clock, even if the machine
// woke up before the planned end of its suspension.
func TestTimersAfterWaking(t *testing.T) {
	w := New(1, 1)
	m := w.Machines[0]
	m.Up = true
	at := time.Duration(0)
	begin := m.monotone()
	m.AfterClock(time.Second, func() { at = m.monotone() - begin })
	w.After(500*time.Millisecond, m.Suspend)
	w.After(1500*time.Millisecond, func() { w.Heal(func(*Machine) {}) })
	w.Run(30 * time.Second)
	if at < time.Second || at > time.Second+time.Millisecond {
		t.Errorf("a timer of 1 s fired after %v", at)
	}
}

// TestMonotoneClockNeverGoesBack checks that the monotonic clock of a machine stops during a suspension and continues
// from its last value. Suspensions may overlap, and any event may end them. If the clock went back, timers of the
// product would fire late.
func TestMonotoneClockNeverGoesBack(t *testing.T) {
	for seed := range uint64(200) {
		w := New(seed, 1)
		m := w.Machines[0]
		m.Up = true
		last, awake := m.monotone(), time.Duration(0)
		begin := last
		for range 40 {
			switch w.Rand.IntN(5) {
			case 0, 1:
				m.Suspend()
			case 2:
				m.Pause(time.Millisecond, time.Second)
			case 3:
				m.Boot()
			default:
				w.Heal(func(*Machine) {})
			}
			for range 8 {
				d := w.Between(1, 2*time.Second)
				if w.Now+d >= m.asleep {
					awake += w.Now + d - max(w.Now, m.asleep)
				}
				w.Now += d
				if m.Paused > w.Now {
					continue // the process is suspended, so no code reads the clock
				}
				now := m.monotone()
				if now < last {
					t.Fatalf("seed %d: the clock went back by %v", seed, last-now)
				}
				if off := now - begin - m.shown(awake); off < -time.Microsecond || off > time.Microsecond {
					t.Fatalf("seed %d: the clock is off by %v", seed, off)
				}
				last = now
			}
		}
	}
}
