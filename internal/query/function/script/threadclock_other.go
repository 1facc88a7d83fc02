// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package script

import "time"

// threadClock returns a function that returns the elapsed time since the call of threadClock. Only Linux allows a
// thread to read the CPU time of another thread.
func threadClock() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}
