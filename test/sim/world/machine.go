// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Machine is a computer: clocks, a disk and at most one process.
type Machine struct {
	World *World
	ID    int
	FS    *vfs.MemFS
	// Up says that a process runs, Life counts them: what an earlier one had scheduled does nothing.
	Up   bool
	Life int
	// Paused until then; latencies of the disk are multiplied by Slow; Full refuses writes.
	Paused time.Duration
	Slow   int
	Full   bool

	tasks []*Task
	// rate is how fast the clocks run, base what that since the start shows in the beginning, skew how far the wall
	// clock is off, and suspended for how long the machine was: the boot clock has run on, the monotone one has not.
	rate                  float64
	base, skew, suspended time.Duration
	// asleep is when the suspension ends that is under way; suspended counts it to its end.
	asleep time.Duration
	// held is what waits for the end of a pause; awaited says that an event will come then.
	held    []func()
	awaited bool
	// wrong is what SetWrong has set, wrongs counts how often.
	wrong  time.Duration
	wrongs int
}

func newMachine(w *World, id int) *Machine {
	return &Machine{
		World: w, ID: id, FS: vfs.NewCrashableMem(), Slow: 1,
		rate: 1 + (w.Rand.Float64()-0.5)*0.08, base: w.Between(0, time.Hour),
		skew: w.Between(-400*time.Millisecond, 400*time.Millisecond),
	}
}

// epoch is where wall clocks begin, origin where the instants do that package sched measures with: far from it, so that
// a program that confuses them is found.
var (
	epoch  = time.Unix(1_700_000_000, 0)
	origin = time.Unix(1_000_000, 0)
)

// Now is the boot clock; it implements raftgroup.Clock.
func (m *Machine) Now() raftgroup.Instant {
	return raftgroup.Instant(m.base + m.elapsed())
}

// Wall is the wall clock, which is kept near the time.
func (m *Machine) Wall() time.Time { return m.World.Time().Add(m.skew + m.wrong) }

// Time is the calendar's, which no machine knows.
func (w *World) Time() time.Time { return epoch.Add(w.Now) }

func (m *Machine) elapsed() time.Duration { return m.shown(m.World.Now) }

// shown is what the machine's clocks make of a duration.
func (m *Machine) shown(d time.Duration) time.Duration { return time.Duration(float64(d) * m.rate) }

// monotone is the clock that stands still while the machine is suspended.
func (m *Machine) monotone() time.Duration { return m.base + m.elapsed() - m.suspended }

// AfterClock calls do when the monotone clock has gone on by d and the process runs, unless its life has ended.
func (m *Machine) AfterClock(d time.Duration, do func()) {
	at := m.monotone() + d
	var look func()
	look = func() {
		if left := m.Real(at - m.monotone()); left > 0 {
			if m.asleep > m.World.Now {
				m.AfterPause(look) // what wakes it may come before its time
				return
			}
			m.AfterLife(left, look)
			return
		}
		m.AfterPause(func() {
			if at > m.monotone() { // it was suspended
				look()
				return
			}
			do()
		})
	}
	m.AfterLife(m.Real(d), look)
}

// Real is how long a duration by the machine's clocks takes.
func (m *Machine) Real(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return max(1, time.Duration(float64(d)/m.rate))
}

// Boot begins the life of a process.
func (m *Machine) Boot() {
	m.Up, m.Slow, m.Full = true, 1, false
	m.wake()
}

// AfterLife schedules something that the end of this life cancels.
func (m *Machine) AfterLife(d time.Duration, do func()) {
	life := m.Life
	m.World.After(d, func() {
		if m.Life == life && m.Up {
			m.Touch()
			do()
		}
	})
}

// AfterPause does something when the process runs: at once, or when its pause is over, unless its life has ended.
func (m *Machine) AfterPause(do func()) {
	if m.Paused > m.World.Now {
		life := m.Life
		m.held = append(m.held, func() {
			if m.Life == life && m.Up {
				m.AfterPause(do)
			}
		})
		m.awaitEnd()
		return
	}
	m.Touch()
	do()
}

// awaitEnd sees to it that what is held goes on when the pause is over.
func (m *Machine) awaitEnd() {
	if m.awaited {
		return
	}
	m.awaited = true
	m.World.After(max(0, m.Paused-m.World.Now), func() {
		if m.awaited = false; m.Paused > m.World.Now { // it was prolonged
			m.awaitEnd()
			return
		}
		m.release()
	})
}

// release has what is held go on.
func (m *Machine) release() {
	held := m.held
	m.held = nil
	for _, do := range held {
		m.World.After(0, do)
	}
	m.Touch()
}

// Latency draws how long a disk operation takes.
func (m *Machine) Latency(most time.Duration) time.Duration {
	return m.World.Between(50*time.Microsecond, most) * time.Duration(m.Slow)
}

// Crash ends the process by way of close. What was not synced is lost, or all of it is kept: the process died and the
// machine did not.
func (m *Machine) Crash(end func()) {
	w := m.World
	w.Faults.Crashes++
	if w.Wait != nil {
		w.Wait()
	}
	percent := 0
	if w.OneIn(5) {
		percent = 100
	}
	w.Note("node %d crashes, unsynced bytes kept: %d%%", m.ID, percent)
	next := m.left(percent)
	end()
	m.FS = next
}

// CrashAs ends the process by way of end, and leaves on the disk what Left has returned.
func (m *Machine) CrashAs(left *vfs.MemFS, end func()) {
	m.World.Faults.Crashes++
	m.World.Note("node %d has crashed halfway", m.ID)
	end()
	m.FS = left
}

// Left returns what a crash would leave on the disk now, for CrashAs, with so much of what was not synced.
func (m *Machine) Left(percent int) *vfs.MemFS {
	if m.World.Wait != nil {
		m.World.Wait()
	}
	return m.left(percent)
}

func (m *Machine) left(percent int) *vfs.MemFS {
	return m.FS.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
		RNG: rand.New(rand.NewPCG(m.World.seed, uint64(m.World.Now)))})
}

// Keep returns what a crash would leave on the disk now, for Restore to bring back later.
func (m *Machine) Keep() *vfs.MemFS { return m.left(0) }

// End ends the process: its tasks first, for they may have iterators open.
func (m *Machine) End() {
	m.Life++
	m.Up = false
	m.kill()
}
