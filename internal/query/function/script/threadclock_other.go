// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package script

import "time"

// threadClock returns a function that returns the elapsed time since the call to threadClock, because only Linux lets a
// thread read the CPU time of another thread.
func threadClock() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
