// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cluster

import (
	"syscall"
	"testing"
	"time"
)

// pauseTime is longer than a write may take, which is 2 s.
const pauseTime = 3 * time.Second

// TestPausedMachine shows what clients see of a machine that has no processor for any node for longer than a write may
// take: the writes that were under way end in WRITE_TIMEOUT, about one for each client, all at once; nothing is lost,
// stale or done twice, and what begins later is answered as before.
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
