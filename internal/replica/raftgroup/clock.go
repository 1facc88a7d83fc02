// SPDX-License-Identifier: Apache-2.0

package raftgroup

import "github.com/ilion-db/ilion/internal/model/sched"

// BootClock is the clock of leases. Unlike Go's monotonic clock, it advances while the machine is suspended.
type BootClock struct{ Scheduler *sched.Scheduler }

// Now reads the scheduler's boot clock.
func (c BootClock) Now() Instant { return Instant(c.Scheduler.Boot()) }
