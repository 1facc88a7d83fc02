// SPDX-License-Identifier: Apache-2.0

// Package fakeclock provides clocks for tests.
package fakeclock

import "time"

// Func is a sched.Clock that calls a function.
type Func func() time.Time

// Wall implements sched.Clock.
func (f Func) Wall() time.Time { return f() }

// At is a sched.Clock that always shows the same time.
type At time.Time

// Wall implements sched.Clock.
func (a At) Wall() time.Time { return time.Time(a) }
