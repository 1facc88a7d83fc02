// SPDX-License-Identifier: Apache-2.0

package raftgroup

import "github.com/ilion-db/ilion/internal/model/sched"

// BootClock is the clock of leases: it goes on while the machine is suspended, which Go's own does not.
type BootClock struct{ Scheduler *sched.Scheduler }

// Now reads the scheduler's boot clock.
func (c BootClock) Now() Instant { return Instant(c.Scheduler.Boot()) }
