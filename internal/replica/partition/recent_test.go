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

// TestRecentNeverForgetsTooEarly: whatever is applied when, a write that was applied is never let through again,
// however the age that its sender tells is wrong and however long it was on its way: machines that are suspended take
// standing clocks for time. Memory stays bounded.
func TestRecentNeverForgetsTooEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		now := raftgroup.Instant(time.Hour)
		r.reset(now)
		applied := map[uint64]bool{}
		known := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += raftgroup.Instant(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pause"))
			id, age := rapid.Uint64Range(1, known+1).Draw(t, "id"), time.Duration(0)
			known = max(known, id)
			if rapid.Bool().Draw(t, "again") {
				age = time.Millisecond // it believes
			}
			done, err := r.enter(sequence(id), age, now)
			switch {
			case done && !applied[id]:
				t.Fatalf("%d was never applied", id)
			case !done && err == nil:
				if applied[id] {
					t.Fatalf("%d is let through again", id)
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

// TestSuspendedSender: a machine that was suspended sends a write again that it believes to be a moment old. It was
// applied, forgotten and written over long ago: it is not applied again, and neither is a first attempt that was on its
// way for as long.
func TestSuspendedSender(t *testing.T) {
	var r recent
	now := raftgroup.Instant(time.Hour)
	r.reset(always)
	for n := range uint64(10) {
		r.remember([]command.DedupeID{sequence(n + 1)}, now)
		now += raftgroup.Instant(4 * time.Second)
	}
	for _, age := range []time.Duration{0, 20 * time.Millisecond} {
		if applied, err := r.enter(sequence(2), age, now); applied || !errors.Is(err, ErrUncertain) {
			t.Errorf("age %v: %v, %v", age, applied, err)
		}
	}
	if applied, err := r.enter(sequence(11), 0, now); applied || err != nil {
		t.Errorf("a new write: %v, %v", applied, err)
	}
}

// TestRecentBounds: under way, then applied; at most rememberMax are kept, and what had to be forgotten early is not
// known; nothing is kept when nothing happens.
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
	if n := r.young.len() + r.old.len(); n > rememberMax || n < rememberMax/2 {
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
	if r.young.len()+r.old.len()+len(r.underWay) != 0 {
		t.Error("memory is held while nothing happens")
	}
}

// TestRememberedIsASet: what was added is there and nothing else, in whatever order and with whatever gaps the numbers
// of several coordinators come.
func TestRememberedIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := remembered{room: rapid.IntRange(0, 100).Draw(t, "room")}
		want := map[command.DedupeID]bool{}
		stride := rapid.SampledFrom([]uint64{1, 3, 8, 256, 1 << 32, 1 << 61}).Draw(t, "stride")
		draw := func() command.DedupeID {
			id := command.DedupeID{Sequence: rapid.Uint64Range(0, 300).Draw(t, "number") * stride}
			id.Coordinator[0] = rapid.ByteRange(0, 3).Draw(t, "coordinator")
			return id
		}
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			id := draw()
			if r.has(id) != want[id] {
				t.Fatalf("%v: %v, want %v", id, r.has(id), want[id])
			}
			if rapid.Bool().Draw(t, "add") {
				r.add(id)
				want[id] = true
			}
		}
		for id := range want {
			if !r.has(id) {
				t.Fatalf("%v is missing", id)
			}
		}
		if r.len() != len(want) {
			t.Fatalf("%d ids, want %d", r.len(), len(want))
		}
	})
}
