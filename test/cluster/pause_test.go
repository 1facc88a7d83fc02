// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"syscall"
	"testing"
	"time"
)

// pauseTime is longer than the write timeout of 2 s.
const pauseTime = 3 * time.Second

// TestPausedMachine checks the behavior for clients when all nodes of a machine get no CPU time for longer than the
// write timeout. The writes in flight, about one per client, must end with WRITE_TIMEOUT at the same time. No data may
// be lost, stale, or applied twice, and later requests must succeed.
func TestPausedMachine(t *testing.T) {
	onlyLong(t)
	f := startFleet(t, 5, "")
	l := startLoad(f, *clients, 0)
	l.more(*requests)
	l.tolerate(true)
	l.mark("pause")
	for _, m := range f.nodes {
		m.signal(syscall.SIGSTOP)
	}
	l.lasts(pauseTime)
	for _, m := range f.nodes {
		m.signal(syscall.SIGCONT)
	}
	l.mark("all go on")
	l.more(*requests / 2)
	f.settle()
	l.tolerate(false)
	l.mark("afterwards")
	l.more(*requests)
	l.finish()
}
