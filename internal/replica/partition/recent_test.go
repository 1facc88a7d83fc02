// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

func sequence(n uint64) command.DedupeID { return command.DedupeID{Sequence: n} }

// TestRecentNeverForgetsTooEarly: whatever is applied when, a write that was applied is never let through again when its age is told
// truly, and memory stays bounded.
func TestRecentNeverForgetsTooEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		now := raftgroup.Instant(time.Hour)
		r.reset(now)
		first := map[uint64]raftgroup.Instant{} // of attempts
		applied := map[uint64]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += raftgroup.Instant(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "pause"))
			id := rapid.Uint64Range(1, 12).Draw(t, "id")
			age := time.Duration(0)
			if at, ok := first[id]; ok {
				age = time.Duration(now-at) + 1
			} else {
				first[id] = now
			}
			done, err := r.enter(sequence(id), age, now)
			switch {
			case done && !applied[id]:
				t.Fatalf("%d was never applied", id)
			case !done && err == nil:
				if applied[id] {
					t.Fatalf("%d is let through again after %v", id, age)
				}
				if rapid.Bool().Draw(t, "success") {
					r.remember([]command.DedupeID{sequence(id)}, now)
					applied[id] = true
				}
				r.leave(sequence(id))
			case errors.Is(err, ErrUnderWay):
				t.Fatalf("%d is not under way", id)
			}
			r.tidy(now)
		}
	})
}

// TestRecentBounds: under way, then applied; at most rememberMax are kept, and what had to be forgotten early is not known; nothing is kept
// when nothing happens.
func TestRecentBounds(t *testing.T) {
	var r recent
	now := raftgroup.Instant(time.Hour)
	r.reset(always)
	if done, err := r.enter(sequence(1), time.Minute, now); done || err != nil {
		t.Fatalf("%v, %v: nothing was ever applied", done, err)
	}
	if _, err := r.enter(sequence(1), 0, now); !errors.Is(err, ErrUnderWay) {
		t.Fatal(err)
	}
	for n := range uint64(2 * rememberMax) {
		r.remember([]command.DedupeID{sequence(n + 1)}, now+raftgroup.Instant(n))
	}
	r.leave(sequence(1))
	if n := len(r.young) + len(r.old); n > rememberMax || n < rememberMax/2 {
		t.Errorf("%d ids are remembered", n)
	}
	now += 2 * rememberMax
	if _, err := r.enter(sequence(1), time.Second, now); !errors.Is(err, ErrUncertain) {
		t.Errorf("an id that had to be forgotten: %v", err)
	}
	if done, err := r.enter(sequence(2*rememberMax), time.Second, now); !done || err != nil {
		t.Errorf("the last one: %v, %v", done, err)
	}
	for range 3 {
		now += raftgroup.Instant(2 * rememberFor)
		r.tidy(now)
	}
	if len(r.young)+len(r.old)+len(r.underWay) != 0 {
		t.Error("memory is held while nothing happens")
	}
}
