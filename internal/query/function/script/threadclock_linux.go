// SPDX-License-Identifier: Apache-2.0

package script

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadClock returns a function that returns the CPU time of the calling OS thread since the call of threadClock. The
// calling goroutine must be locked to the thread. Any goroutine may call the returned function until the thread ends.
func threadClock() func() time.Duration {
	// The clock ID consists of the thread ID and the flags CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED.
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
