// SPDX-License-Identifier: Apache-2.0

package simenv

import "time"

// Weather returns the faults that can happen to any machine. Each function draws one fault and schedules its end.
func (w *Environment) Weather(m *Machine, crash, restart func()) []func() {
	return []func(){
		func() {
			crash()
			w.After(w.Between(50*time.Millisecond, 3*time.Second), restart)
		},
		m.cut, func() { m.Pause(100*time.Millisecond, 3*time.Second) }, m.slowDown, m.fill,
	}
}

func (m *Machine) cut() {
	w := m.Environment
	w.Faults.Cuts++
	w.Note("node %d is cut off", m.ID)
	w.Net.Cut(m.ID)
	w.After(w.Between(300*time.Millisecond, 4*time.Second), func() { w.Net.Join(m.ID) })
}

// CutWith separates two machines from all other machines for a while. The two machines stay connected to each other.
func (m *Machine) CutWith(other *Machine) {
	w := m.Environment
	w.Faults.Cuts++
	w.Note("nodes %d and %d are cut off together", m.ID, other.ID)
	w.Net.CutPair(m.ID, other.ID)
	w.After(w.Between(300*time.Millisecond, 4*time.Second), func() {
		w.Net.Join(m.ID)
		w.Net.Join(other.ID)
	})
}

// Pause stops the process for some time, like SIGSTOP. All clocks continue.
func (m *Machine) Pause(least, most time.Duration) {
	w := m.Environment
	w.Faults.Pauses++
	m.Paused = max(m.Paused, w.Now+w.Between(least, most))
	m.awaitEnd()
	w.Note("node %d pauses until %v", m.ID, m.Paused)
}

// Suspend suspends the machine for some time. The monotonic clock does not advance during a suspension.
func (m *Machine) Suspend() {
	w := m.Environment
	w.Faults.Suspends++
	from, until := max(m.asleep, w.Now), w.Now+w.Between(100*time.Millisecond, 20*time.Second)
	if until > from {
		m.asleep = until
		m.suspended += m.shown(until - from)
	}
	m.Paused = max(m.Paused, until)
	m.awaitEnd()
	w.Note("node %d is suspended until %v", m.ID, m.asleep)
}

// wake ends a pause and a suspension early. The monotonic clock continues from its current value.
func (m *Machine) wake() {
	if left := m.asleep - m.Environment.Now; left > 0 {
		m.suspended -= m.shown(left)
	}
	m.Paused, m.asleep = 0, 0
	m.release()
}

// Jump sets the wall clock forward or backward by milliseconds to minutes, and resets the clock after some time.
func (m *Machine) Jump() {
	w := m.Environment
	most := []time.Duration{10 * time.Millisecond, time.Second, 10 * time.Second, 3 * time.Minute}[w.Rand.IntN(4)]
	for _, other := range w.Machines {
		if other != m && other.wrong != 0 {
			return // only one clock is wrong at a time
		}
	}
	w.Faults.Jumps++
	undo := m.SetWrong(w.Between(-most, most))
	w.After(w.Between(time.Second, 8*time.Second), func() { undo() })
}

// SetWrong adds an offset to the wall clock. undo removes the offset and returns true, unless other faults have set the
// clock since then.
func (m *Machine) SetWrong(by time.Duration) (undo func() bool) {
	m.setWrong(by)
	m.wrongs++
	set := m.wrongs
	return func() bool {
		if m.wrongs != set {
			return false
		}
		m.setWrong(0)
		return true
	}
}

func (m *Machine) setWrong(by time.Duration) {
	if m.wrong != 0 {
		m.Environment.wrong = m.Environment.Now
	}
	m.wrong = by
	m.Environment.Note("the wall clock of node %d is off by %v", m.ID, by)
}

func (m *Machine) slowDown() {
	w := m.Environment
	w.Faults.SlowDisks++
	w.Note("node %d has a slow disk", m.ID)
	m.Slow = 10 + w.Rand.IntN(60)
	w.Net.slow[m.ID] = w.OneIn(2)
	w.After(w.Between(time.Second, 3*time.Second), func() { m.Slow, w.Net.slow[m.ID] = 1, false })
}

func (m *Machine) fill() {
	w := m.Environment
	w.Faults.FullDisks++
	w.Note("node %d has a full disk", m.ID)
	m.Full = true
	m.AfterLife(w.Between(time.Second, 2*time.Second), func() { m.Full = false })
}

// Heal ends all faults. Heal calls restart for every machine after a short delay.
func (w *Environment) Heal(restart func(m *Machine)) {
	w.Calm = true
	w.Note("calm")
	for _, m := range w.Machines {
		w.Net.Join(m.ID)
		w.Net.slow[m.ID] = false
		m.Slow, m.Full = 1, false
		m.wake()
		if m.wrong != 0 {
			w.wrong = w.Now
		}
		m.wrong = 0
		m.wrongs++
		w.After(100*time.Millisecond, func() { restart(m) })
	}
}

// LastWrong returns the last time at which a wall clock was wrong, or the current time if a clock is wrong now.
func (w *Environment) LastWrong() time.Duration {
	for _, m := range w.Machines {
		if m.wrong != 0 {
			return w.Now
		}
	}
	return w.wrong
}
