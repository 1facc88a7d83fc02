// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// attempt returns a first attempt. again returns a later attempt whose sender received a value of Host.DedupeEpoch
// before the first attempt.
func attempt(n uint64) *command.Mutation { return &command.Mutation{Dedupe: sequence(n)} }

func again(n, known uint64) *command.Mutation {
	return &command.Mutation{Dedupe: sequence(n), Retried: true, Known: known}
}

func sequence(n uint64) command.DedupeID { return command.DedupeID{Sequence: n} }

// newRecent returns the dedupe window of a replica that was just opened.
func newRecent(now raftgroup.Instant) *dedupeWindow {
	r := &dedupeWindow{epoch: new(atomic.Uint64)}
	r.epoch.Store(newDedupeEpoch())
	r.reset(now)
	return r
}

// TestDedupeWindowNeverForgetsTooEarly checks that an applied write is never admitted again if its sender passes the
// epoch from before the first attempt. It tests different orders of writes, restarts of the window, and delays of
// attempts. If the window has removed no IDs, it must know every write that it has admitted. The size of the window
// must remain limited.
func TestDedupeWindowNeverForgetsTooEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := raftgroup.Instant(time.Hour)
		r := newRecent(now)
		applied, known := map[uint64]bool{}, map[uint64]uint64{}
		newest, told := uint64(0), uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += raftgroup.Instant(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "pause"))
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				told = r.epoch.Load()
			case 1: // a snapshot is installed
				r.reset(now)
			case 2: // the process restarts
				r = newRecent(now)
			}
			id := rapid.Uint64Range(1, newest+1).Draw(t, "id")
			m := attempt(id)
			if id > newest {
				newest, known[id] = id, told
			} else {
				m = again(id, known[id])
			}
			done, err := r.begin(m)
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
				r.end(sequence(id))
			case errors.Is(err, ErrInProgress):
				t.Fatalf("%d is not under way", id)
			}
			r.expire(now)
		}
	})
}

// TestSuspendedSender simulates a machine that was suspended and then repeats a write that it considers recent. The
// write was applied, removed from the window, and overwritten long ago. Neither this write nor a first attempt with the
// same delay must be applied.
func TestSuspendedSender(t *testing.T) {
	now := raftgroup.Instant(time.Hour)
	r := newRecent(now)
	r.markComplete()
	for n := range uint64(10) {
		r.remember([]command.DedupeID{sequence(n + 1)}, now)
		now += raftgroup.Instant(4 * time.Second)
	}
	for _, m := range []*command.Mutation{attempt(2), again(2, r.epoch.Load())} {
		if applied, err := r.begin(m); applied || !errors.Is(err, ErrUncertain) {
			t.Errorf("again %v: %v, %v", m.Retried, applied, err)
		}
	}
	if applied, err := r.begin(attempt(11)); applied || err != nil {
		t.Errorf("a new write: %v, %v", applied, err)
	}
}

// TestLateFirstAttempt checks that a window admits a first attempt from another node if the window existed when the
// sender received the epoch. A newer window must reject the attempt as not executed, because a later attempt may have
// been applied before. The rejection must contain the epoch with which the attempt is admitted.
func TestLateFirstAttempt(t *testing.T) {
	r := newRecent(0)
	r.markComplete()
	sent := func(n, known uint64) *command.Mutation {
		return &command.Mutation{Dedupe: sequence(n), Sent: true, Known: known}
	}
	if _, err := r.begin(sent(1, 0)); err != nil {
		t.Errorf("nothing was ever applied: %v", err)
	}
	before := r.epoch.Load()
	r.reset(0) // a snapshot has been installed
	var f *DedupeUnknown
	if applied, err := r.begin(sent(2, before)); applied || !errors.As(err, &f) {
		t.Fatalf("%v, %v", applied, err)
	}
	if applied, err := r.begin(sent(2, f.Epoch)); applied || err != nil {
		t.Errorf("sent again: %v, %v", applied, err)
	}
	if _, err := r.begin(attempt(3)); err != nil {
		t.Errorf("from this node: %v", err)
	}
}

// TestYoungDedupeWindow checks that a new window admits only attempts of senders that received its epoch before their
// first attempts. It must reject attempts with an older epoch, with the epoch of another process, or without an epoch.
func TestYoungDedupeWindow(t *testing.T) {
	r := newRecent(0)
	before := r.epoch.Load()
	r.reset(0)
	for _, known := range []uint64{0, before, before + epochSpan, before - epochSpan} {
		if applied, err := r.begin(again(1, known)); applied || !errors.Is(err, ErrUncertain) {
			t.Errorf("known %x of %x: %v, %v", known, r.since, applied, err)
		}
	}
	r.epoch.Add(1) // the window of another replica starts
	for n, known := range []uint64{before + 1, before + 2} {
		if applied, err := r.begin(again(uint64(n), known)); applied || err != nil {
			t.Errorf("known %x of %x: %v, %v", known, r.since, applied, err)
		}
	}
}

// TestDedupeWindowBounds checks that an ID is first in progress and then applied. It also checks that the number of IDs
// does not exceed rememberMax, that IDs removed early are unknown, and that an idle window becomes empty.
func TestDedupeWindowBounds(t *testing.T) {
	now := raftgroup.Instant(time.Hour)
	r := newRecent(now)
	r.markComplete()
	if done, err := r.begin(again(1, 0)); done || err != nil {
		t.Fatalf("%v, %v: nothing was ever applied", done, err)
	}
	if _, err := r.begin(attempt(1)); !errors.Is(err, ErrInProgress) {
		t.Fatal(err)
	}
	for n := range uint64(2 * rememberMax) {
		r.remember([]command.DedupeID{sequence(n + 1)}, now+raftgroup.Instant(n))
	}
	r.end(sequence(1))
	if n := r.young.len() + r.old.len(); n > rememberMax || n < rememberMax/2 {
		t.Errorf("%d ids are remembered", n)
	}
	now += 2 * rememberMax
	if _, err := r.begin(again(1, 0)); !errors.Is(err, ErrUncertain) {
		t.Errorf("an id that had to be forgotten: %v", err)
	}
	if done, err := r.begin(again(2*rememberMax, 0)); !done || err != nil {
		t.Errorf("the last one: %v, %v", done, err)
	}
	for range 3 {
		now += raftgroup.Instant(2 * rememberFor)
		r.expire(now)
	}
	if r.young.len()+r.old.len()+len(r.inProgress) != 0 {
		t.Error("an idle connection holds memory")
	}
}

// TestRememberedIsASet checks that the set contains exactly the added IDs, for all orders and gaps of several
// coordinators' sequence numbers.
func TestRememberedIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := dedupeSet{room: rapid.IntRange(0, 100).Draw(t, "room")}
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
