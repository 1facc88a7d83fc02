// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package raftgroup

import "time"

// BootClock is the clock of leases. On systems other than Linux it is Go's monotonic clock: a machine that is suspended may find a
// lease there that is over, so production is on Linux.
type BootClock struct{}

var began = time.Now()

// Now reads the clock.
func (BootClock) Now() Instant { return Instant(time.Since(began)) + 1 }
