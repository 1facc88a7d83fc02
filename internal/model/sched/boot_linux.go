// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"time"

	"golang.org/x/sys/unix"
)

// boot reads CLOCK_BOOTTIME, which continues while the machine is suspended. Go's own clock stops during that time.
func boot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("sched: no boot clock: " + err.Error()) // supported by Linux since 2.6.39
	}
	return time.Duration(t.Nano())
}
