// SPDX-License-Identifier: Apache-2.0

package raftgroup

import "golang.org/x/sys/unix"

// BootClock is the clock of leases: it goes on while the machine is suspended, which Go's own does not.
type BootClock struct{}

// Now reads CLOCK_BOOTTIME.
func (BootClock) Now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("raftgroup: no boot clock: " + err.Error()) // every Linux since 2.6.39 has it
	}
	return Instant(t.Nano())
}
