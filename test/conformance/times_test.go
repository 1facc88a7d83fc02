// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"testing"
	"time"
)

// TestTimesOfTheClock checks that differences of recorded timestamps are accepted only if the clock assigned them.
func TestTimesOfTheClock(t *testing.T) {
	stamp := func(at time.Time) string { return fmt.Sprintf("%016x", at.UnixMicro()) }
	list := func(stamps ...string) string {
		s := fmt.Sprintf("%08x", len(stamps))
		for _, v := range stamps {
			if s += "ffffffff"; v != "" {
				s = s[:len(s)-8] + "00000008" + v
			}
		}
		return s
	}
	then, later := stamp(recorded.Add(time.Hour)), stamp(recorded.Add(2*time.Hour))
	now, old, own := stamp(time.Now()), stamp(began.Add(-time.Minute)), "0000000000000064"
	for _, c := range []struct {
		what, want, have string
		alike            bool
	}{
		{"a time of the clock", then, now, true},
		{"one from before the replay", then, old, false},
		{"one of a client", own, now, false},
		{"one of a client, the same", own, own, true},
		{"a timestamp that the clock did not assign", then, own, false},
		{"a list", list(then, "", then), list(now, "", now), true},
		{"different nulls", list(then, "", then), list(now, now, ""), false},
		{"times that were equal", list(then, then), list(now, stamp(began)), false},
		{"times that were not", list(then, later), list(stamp(began), now), true},
		{"a list with a client's", list(then, own), list(now, own), true},
		{"a list of another length", list(then), list("", ""), false},
	} {
		if got := len(c.want) == len(c.have) && bothOfTheClock(c.want, c.have); got != c.alike {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
