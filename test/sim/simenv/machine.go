// SPDX-License-Identifier: Apache-2.0

package simenv

import (
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Machine is a computer with clocks, a disk, and up to one process.
type Machine struct {
	Environment *Environment
	ID          int
	FS          *vfs.MemFS
	// Up is set while a process runs. Life counts the processes. Events that an earlier process has scheduled are
	// ignored.
	Up   bool
	Life int
	// Paused is the end of the current pause. Slow multiplies the latencies of the disk. Full makes the disk reject
	// writes.
	Paused time.Duration
	Slow   int
	Full   bool

	tasks []*Task
	// rate is the rate of the clocks. base is the initial value of the monotonic clock and the boot clock. skew is the
	// offset of the wall clock. suspended is the total time of suspension. The boot clock advances during a
	// suspension, but the monotonic clock does not.
	rate                  float64
	base, skew, suspended time.Duration
	// asleep is the end of the current suspension. suspended already includes the whole current suspension.
	asleep time.Duration
	// held holds the functions that wait for the end of a pause. awaited is set if an event is scheduled for the end
	// of the pause.
	held    []func()
	awaited bool
	// wrong is the offset that SetWrong has set. wrongs counts the calls of SetWrong.
	wrong  time.Duration
	wrongs int
}

func newMachine(w *Environment, id int) *Machine {
	return &Machine{
		Environment: w, ID: id, FS: vfs.NewCrashableMem(), Slow: 1,
		rate: 1 + (w.Rand.Float64()-0.5)*0.08, base: w.Between(0, time.Hour),
		skew: w.Between(-400*time.Millisecond, 400*time.Millisecond),
	}
}

// epoch is the start of wall clocks. origin is the start of the instants that package sched uses. The two times are
// far apart, so code that confuses them fails.
var (
	epoch  = time.Unix(1_700_000_000, 0)
	origin = time.Unix(1_000_000, 0)
)

// Now returns the boot clock. It implements raftgroup.Clock.
func (m *Machine) Now() raftgroup.Instant {
	return raftgroup.Instant(m.base + m.elapsed())
}

// Wall returns the wall clock, which is normally close to the true time.
func (m *Machine) Wall() time.Time { return m.Environment.Time().Add(m.skew + m.wrong) }

// Time returns the true time, which no machine knows.
func (w *Environment) Time() time.Time { return epoch.Add(w.Now) }

func (m *Machine) elapsed() time.Duration { return m.shown(m.Environment.Now) }

// shown converts a true duration to a duration of the machine's clocks.
func (m *Machine) shown(d time.Duration) time.Duration { return time.Duration(float64(d) * m.rate) }

// monotone returns the clock that stops while the machine is suspended.
func (m *Machine) monotone() time.Duration { return m.base + m.elapsed() - m.suspended }

// AfterClock calls do as soon as the monotonic clock has advanced by d and the process is not paused. If the process
// has ended, AfterClock does not call do.
func (m *Machine) AfterClock(d time.Duration, do func()) {
	at := m.monotone() + d
	var look func()
	look = func() {
		if left := m.Real(at - m.monotone()); left > 0 {
			if m.asleep > m.Environment.Now {
				m.AfterPause(look) // check the clock again, because the machine may wake up early
				return
			}
			m.AfterLife(left, look)
			return
		}
		m.AfterPause(func() {
			if at > m.monotone() { // the machine was suspended
				look()
				return
			}
			do()
		})
	}
	m.AfterLife(m.Real(d), look)
}

// Real converts a duration of the machine's clocks to a true duration.
func (m *Machine) Real(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return max(1, time.Duration(float64(d)/m.rate))
}

// Boot starts a process.
func (m *Machine) Boot() {
	m.Up, m.Slow, m.Full = true, 1, false
	m.wake()
}

// AfterLife schedules a function. The end of the current process cancels the function.
func (m *Machine) AfterLife(d time.Duration, do func()) {
	life := m.Life
	m.Environment.After(d, func() {
		if m.Life == life && m.Up {
			m.Touch()
			do()
		}
	})
}

// AfterPause runs a function immediately, or after the current pause if the process is paused. If the process has
// ended, AfterPause does not run the function.
func (m *Machine) AfterPause(do func()) {
	if m.Paused > m.Environment.Now {
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

// awaitEnd schedules the held functions for the end of the pause.
func (m *Machine) awaitEnd() {
	if m.awaited {
		return
	}
	m.awaited = true
	m.Environment.After(max(0, m.Paused-m.Environment.Now), func() {
		if m.awaited = false; m.Paused > m.Environment.Now { // the pause was extended
			m.awaitEnd()
			return
		}
		m.release()
	})
}

// release runs the held functions.
func (m *Machine) release() {
	held := m.held
	m.held = nil
	for _, do := range held {
		m.Environment.After(0, do)
	}
	m.Touch()
}

// Latency draws the duration of a disk operation.
func (m *Machine) Latency(most time.Duration) time.Duration {
	return m.Environment.Between(50*time.Microsecond, most) * time.Duration(m.Slow)
}

// Crash ends the process through end. Either the machine crashes and unsynced data is lost, or only the process dies
// and all data is kept.
func (m *Machine) Crash(end func()) {
	w := m.Environment
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

// CrashAs ends the process through end and replaces the disk with a state that Left has returned.
func (m *Machine) CrashAs(left *vfs.MemFS, end func()) {
	m.Environment.Faults.Crashes++
	m.Environment.Note("node %d has crashed halfway", m.ID)
	end()
	m.FS = left
}

// Left returns, for CrashAs, the state of the disk after a crash at this time. percent is the percentage of the
// unsynced data that survives.
func (m *Machine) Left(percent int) *vfs.MemFS {
	if m.Environment.Wait != nil {
		m.Environment.Wait()
	}
	return m.left(percent)
}

func (m *Machine) left(percent int) *vfs.MemFS {
	return m.FS.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
		RNG: rand.New(rand.NewPCG(m.Environment.seed, uint64(m.Environment.Now)))})
}

// Keep returns, for Restore, the state of the disk after a crash at this time.
func (m *Machine) Keep() *vfs.MemFS { return m.left(0) }

// End ends the process. The tasks of the process end first, because they may have open iterators.
func (m *Machine) End() {
	m.Life++
	m.Up = false
	m.kill()
}
