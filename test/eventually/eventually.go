// SPDX-License-Identifier: Apache-2.0

// Package eventually waits in tests for the effects of other processes or goroutines. Polling keeps tests short on
// fast machines and reliable on slow machines.
package eventually

import (
	"testing"
	"time"
)

const (
	// Limit is the time after which True fails the test. It is long enough for a busy machine.
	Limit = 2 * time.Minute

	// The polling interval grows by 50% with each attempt, from first to last.
	first = time.Millisecond
	last  = 50 * time.Millisecond
)

// True waits until ok returns true, and fails the test after Limit.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	None(t, what, Limit, func() string {
		if ok() {
			return ""
		}
		return "no"
	})
}

// None waits until missing returns "". missing describes the unmet condition. None returns the elapsed time. After
// limit, None fails the test with the last description.
func None(t testing.TB, what string, limit time.Duration, missing func() string) time.Duration {
	t.Helper()
	took, text := Try(limit, missing)
	if text != "" {
		t.Fatalf("%s: not after %s: %s", what, took.Round(time.Millisecond), text)
	}
	return took
}

// Try works like None, but does not fail the test. Try returns the last description of the unmet condition, or "" if
// the condition was met.
func Try(limit time.Duration, missing func() string) (took time.Duration, text string) {
	began := time.Now()
	for pause := first; ; pause = min(pause*3/2, last) {
		text = missing()
		if took = time.Since(began); text == "" || took > limit {
			return took, text
		}
		time.Sleep(pause)
	}
}
