// SPDX-License-Identifier: Apache-2.0

package lograte

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimiter checks that a recurring message is allowed once per interval, that omitted messages are counted, and that
// the number of keys is bounded.
func TestLimiter(t *testing.T) { synctest.Test(t, testLimiter) }

func testLimiter(t *testing.T) {
	var l Limiter
	allowed := 0
	for range 100 {
		if l.Allow("a") {
			allowed++
		}
	}
	if allowed != 1 || !l.Allow("b") {
		t.Fatalf("%d messages were allowed", allowed)
	}
	time.Sleep(Interval)
	if omitted, ok := l.Count("a"); !ok || omitted != 99 {
		t.Fatalf("%d, %v", omitted, ok)
	}
	for i := range 10 * keysMax {
		if l.Allow(fmt.Sprint("key ", i)) {
			allowed++
		}
	}
	if len(l.keys) > keysMax+1 || allowed > keysMax+2 {
		t.Errorf("%d keys are kept, %d messages were allowed", len(l.keys), allowed)
	}
}
