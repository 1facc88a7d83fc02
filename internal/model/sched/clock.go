// SPDX-License-Identifier: Apache-2.0

package sched

import "time"

// Clock is a source of calendar time. It is a *Scheduler, or a clock that other nodes or a test control.
type Clock interface {
	// Wall returns the time, which may jump in both directions.
	Wall() time.Time
}

// SystemClock is the clock of the operating system.
var SystemClock Clock = (*Scheduler)(nil)
