// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"time"

	"golang.org/x/sys/unix"
)

// boot reads CLOCK_BOOTTIME, which continues while the machine is suspended. Go's own clock does not.
func boot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("sched: no boot clock: " + err.Error()) // every Linux since 2.6.39 has it
	}
	return time.Duration(t.Nano())
}
