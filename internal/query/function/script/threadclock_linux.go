// SPDX-License-Identifier: Apache-2.0

package script

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadClock returns a function that reports the CPU time used by the OS thread of threadClock's caller since the call
// to threadClock. The caller must have locked its goroutine to the thread. Any goroutine may call the function until
// the thread ends.
func threadClock() func() time.Duration {
	// The kernel derives the clock of a thread from its ID: CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
	clock := int32(^unix.Gettid())<<3 | 6
	read := func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(clock, &t) != nil {
			return 0
		}
		return time.Duration(t.Nano())
	}
	began := read()
	return func() time.Duration { return read() - began }
}
