// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"math"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

const (
	// rememberFor is how long the ids of applied writes are remembered at least, rememberMax how many, in two halves.
	rememberFor = 5 * time.Second
	rememberMax = 64 << 10
	// transitMax is how old a command may have become on its way: Mutation.Retried is as of when it was sent. What takes longer is bounded by the
	// deadline of the attempt alone, which travels as what was left of it: nobody drops a command by its age.
	transitMax = time.Second
)

// recent makes plain writes happen once: it remembers the ids of those that were applied here in the last seconds, and of those that
// this leader has under way. It is in memory, so it begins empty when the replica is opened and when a snapshot is installed.
//
// Invariant: the id of every write that was applied here after since is remembered. A write is applied after its first attempt, so an
// id that is not found, and whose first attempt is younger than since, was never applied here. Times are this node's own, of when a
// write was applied: clocks of different nodes need not agree.
type recent struct {
	mu sync.Mutex
	// young and old are the ids that were applied since youngSince, and between since and that.
	young, old        map[command.DedupeID]struct{}
	since, youngSince raftgroup.Instant
	underWay          map[command.DedupeID]struct{}
}

// reset forgets what was applied: nothing is known of the time before since.
func (r *recent) reset(since raftgroup.Instant) {
	r.mu.Lock()
	r.young, r.old = nil, nil
	r.since, r.youngSince = since, since
	r.mu.Unlock()
}

// always is the beginning of time, for a replica that nothing was applied to yet.
const always = raftgroup.Instant(math.MinInt64 / 2)

// enter notes a write that is about to be proposed, which leave takes back. applied says that it need not be: it was applied before.
// The error is ErrUnderWay or ErrUncertain. age is the time since the first attempt, 0 for the first one itself.
func (r *recent) enter(id command.DedupeID, age time.Duration, now raftgroup.Instant) (applied bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.young[id]; ok {
		return true, nil
	}
	if _, ok := r.old[id]; ok {
		return true, nil
	}
	if _, ok := r.underWay[id]; ok {
		return false, ErrUnderWay
	}
	if age > 0 && now-raftgroup.Instant(age+transitMax) <= r.since {
		return false, ErrUncertain
	}
	if r.underWay == nil {
		r.underWay = map[command.DedupeID]struct{}{}
	}
	r.underWay[id] = struct{}{}
	return false, nil
}

// leave says how a write ended that entered: if it was applied, that was remembered before.
func (r *recent) leave(id command.DedupeID) {
	r.mu.Lock()
	delete(r.underWay, id)
	r.mu.Unlock()
}

// remember notes writes that were applied.
func (r *recent) remember(ids []command.DedupeID, now raftgroup.Instant) {
	r.mu.Lock()
	r.forget(now)
	for _, id := range ids {
		if len(r.young) >= rememberMax/2 {
			r.turn(now)
		}
		if r.young == nil {
			r.young = map[command.DedupeID]struct{}{}
		}
		r.young[id] = struct{}{}
	}
	r.mu.Unlock()
}

// tidy gives back the memory of what is old, also where nothing is written any more.
func (r *recent) tidy(now raftgroup.Instant) {
	r.mu.Lock()
	r.forget(now)
	r.mu.Unlock()
}

// forget turns when the young ids are old enough to stand alone for rememberFor.
func (r *recent) forget(now raftgroup.Instant) {
	if len(r.young)+len(r.old) == 0 {
		return // what is remembered is all there was since then
	}
	if now-r.youngSince > raftgroup.Instant(rememberFor) {
		r.turn(now)
	}
}

// turn makes the young ids the old ones.
func (r *recent) turn(now raftgroup.Instant) {
	r.old, r.young = r.young, nil
	r.since, r.youngSince = r.youngSince, now
}
