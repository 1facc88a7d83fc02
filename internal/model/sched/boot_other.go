// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sched

import "time"

var began = time.Now()

// boot returns Go's monotonic clock. This clock does not advance while the machine is suspended, so an expired lease
// may appear valid after a suspension. Production deployments therefore require Linux.
func boot() time.Duration { return time.Since(began) + 1 }
