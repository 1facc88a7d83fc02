// SPDX-License-Identifier: Apache-2.0

// Package poll waits in tests for what other processes or goroutines bring about: it asks again and again, so that a
// test takes as long as its subject and no longer, on a fast machine and on a slow one.
package poll

import (
	"testing"
	"time"
)

const (
	// Limit is how long Until waits before it fails the test: long enough for a machine that is busy with other things.
	Limit = 2 * time.Minute

	// Between two questions passes half as long again as between the two before them, from first to last.
	first = time.Millisecond
	last  = 50 * time.Millisecond
)

// Until waits until ok holds, and fails the test after Limit.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	UntilNone(t, what, Limit, func() string {
		if ok() {
			return ""
		}
		return "no"
	})
}

// UntilNone waits until missing, which says what is not yet as it should be, returns "". It returns how long that took,
// and fails the test after limit with the last text.
func UntilNone(t testing.TB, what string, limit time.Duration, missing func() string) time.Duration {
	t.Helper()
	took, text := Try(limit, missing)
	if text != "" {
		t.Fatalf("%s: not after %s: %s", what, took.Round(time.Millisecond), text)
	}
	return took
}

// Try is UntilNone for callers that go on without: it returns what is still missing after limit, or "".
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
