// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"sync/atomic"
	"testing"
)

// TestRendezvous checks that, in both orders, exactly one of a call and its completion arrives second. The side that
// arrives second must see the writes of the other side. Otherwise, the race detector reports a data race.
func TestRendezvous(t *testing.T) {
	var r Rendezvous
	for i := range 10_000 {
		r.Reset()
		var seconds atomic.Int32
		var call, completion int
		done := make(chan struct{})
		go func() {
			defer close(done)
			completion = i
			if r.Arrive() {
				seconds.Add(1)
				if call != i {
					t.Error("the completion does not see what the call did")
				}
			}
		}()
		call = i
		if r.Arrive() {
			seconds.Add(1)
			if completion != i {
				t.Error("the call does not see what the completion did")
			}
		}
		<-done
		if seconds.Load() != 1 {
			t.Fatalf("%d arrived second", seconds.Load())
		}
	}
}
