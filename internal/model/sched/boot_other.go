// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sched

import "time"

var began = time.Now()

// boot is Go's monotonic clock: a machine that is suspended may find a lease there that is over, so production is on
// Linux.
func boot() time.Duration { return time.Since(began) + 1 }
