// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"crypto/rand"
	"encoding/binary"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

const (
	// rememberFor is the minimum time for which the window contains the IDs of applied writes. rememberMax is the
	// maximum number of IDs in both generations together.
	rememberFor = 5 * time.Second
	rememberMax = 256 << 10
	// coordinatorsMax is the maximum number of coordinators in the field forgotten.
	coordinatorsMax = 1 << 10
)

// dedupeWindow ensures that plain writes are applied only once. It contains the IDs of the writes that this replica has
// applied and of the writes that this leader has in progress. All replicas apply the same writes, so a new leader knows
// the IDs of the previous leader's writes. The window exists only in memory. It is empty after the replica is opened or
// a snapshot is installed.
//
// A coordinator numbers its commands in ascending order. Invariant: For every write that this replica has applied since
// the start of the window, the window contains the write's ID, or the ID's number does not exceed the coordinator's
// highest forgotten number. Any other ID has not been applied since the start of the window. Clocks determine only when
// IDs are forgotten. Forgetting an ID too early can only cause ErrUncertain.
//
// Nodes exchange the start of the window as a value of Host.DedupeEpoch. If a sender knew an epoch at or after the
// start of the window before its first attempt, the write cannot have been applied before the start of the window. The
// check also applies to first attempts. A delayed first attempt may arrive after another leader has applied a later
// attempt whose ID this replica has forgotten.
type dedupeWindow struct {
	mu sync.Mutex
	// young and old hold the IDs of applied writes. The IDs in old were added before youngSince.
	young, old dedupeSet
	youngSince raftgroup.Instant
	// forgotten holds the highest forgotten number of each coordinator.
	forgotten map[[16]byte]uint64
	// epoch is Host.dedupeEpoch. since is the epoch at the start of the window, or 0 if no write was applied before the
	// start of the window.
	epoch      *atomic.Uint64
	since      uint64
	inProgress map[command.DedupeID]struct{}
}

// epochSpan is the maximum difference between two values of Host.DedupeEpoch in one process.
const epochSpan = 1 << 32

// newDedupeEpoch returns the first epoch of a process.
func newDedupeEpoch() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.BigEndian.Uint32(b[:])) * epochSpan
}

// reset forgets all IDs and starts the window at now.
func (r *dedupeWindow) reset(now raftgroup.Instant) {
	r.mu.Lock()
	r.clear(now)
	r.mu.Unlock()
}

// clear forgets all IDs and then increments the epoch. A sender that knows the new epoch therefore makes its first
// attempt after the start of the window.
func (r *dedupeWindow) clear(now raftgroup.Instant) {
	r.young, r.old, r.forgotten = dedupeSet{}, dedupeSet{}, nil
	r.since, r.youngSince = r.epoch.Add(1), now
}

// markComplete records that no write was applied before the start of the window.
func (r *dedupeWindow) markComplete() {
	r.mu.Lock()
	r.since = 0
	r.mu.Unlock()
}

// inherit copies the window of the parent after a split.
func (r *dedupeWindow) inherit(from *dedupeWindow) {
	from.mu.Lock()
	defer from.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = from.young.clone(), from.old.clone()
	r.youngSince, r.forgotten, r.since = from.youngSince, maps.Clone(from.forgotten), from.since
}

// merge adds the window of an absorbed partition. The result contains the IDs of both windows. An ID counts as possibly
// forgotten if at least one of the windows may have forgotten it.
func (r *dedupeWindow) merge(from *dedupeWindow) {
	from.mu.Lock()
	defer from.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young.addAll(&from.young)
	r.old.addAll(&from.old)
	for coordinator, top := range from.forgotten {
		if r.forgotten == nil {
			r.forgotten = map[[16]byte]uint64{}
		}
		r.forgotten[coordinator] = max(r.forgotten[coordinator], top)
	}
	r.youngSince, r.since = max(r.youngSince, from.youngSince), max(r.since, from.since)
	if len(r.forgotten) > coordinatorsMax {
		r.clear(r.youngSince)
	}
}

// covers reports whether the window had started when its node reported the epoch known.
func (r *dedupeWindow) covers(known uint64) bool {
	return r.since == 0 || known >= r.since && known/epochSpan == r.since/epochSpan
}

// begin registers a write before it is proposed. end unregisters the write. applied reports whether the write has
// already been applied and is durable, so that it need not be proposed. The error is ErrInProgress, ErrUncertain, or
// *DedupeUnknown.
func (r *dedupeWindow) begin(m *command.Mutation) (applied bool, err error) {
	id := m.Dedupe
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.inProgress[id]; ok {
		return false, ErrInProgress
	}
	if r.young.has(id) || r.old.has(id) {
		return true, nil
	}
	if top, ok := r.forgotten[id.Coordinator]; ok && id.Sequence <= top {
		return false, ErrUncertain
	}
	if m.Retried && !r.covers(m.Known) {
		return false, ErrUncertain
	}
	if m.Sent && !r.covers(m.Known) {
		return false, &DedupeUnknown{Epoch: r.epoch.Load()}
	}
	if r.inProgress == nil {
		r.inProgress = map[command.DedupeID]struct{}{}
	}
	r.inProgress[id] = struct{}{}
	return false, nil
}

// end unregisters a write. If the write has been applied, remember must be called before end.
func (r *dedupeWindow) end(id command.DedupeID) {
	r.mu.Lock()
	delete(r.inProgress, id)
	r.mu.Unlock()
}

// remember adds the IDs of applied writes.
func (r *dedupeWindow) remember(ids []command.DedupeID, now raftgroup.Instant) {
	r.mu.Lock()
	r.rotateIfOld(now)
	for _, id := range ids {
		if r.young.len() >= rememberMax/2 {
			r.rotate(now)
		}
		if invariant.Enabled {
			invariant.Check(!r.young.has(id) && !r.old.has(id), "I8: write %v was applied twice", id)
		}
		r.young.add(id)
	}
	r.mu.Unlock()
}

// expire drops old IDs even if no new writes arrive.
func (r *dedupeWindow) expire(now raftgroup.Instant) {
	r.mu.Lock()
	r.rotateIfOld(now)
	r.mu.Unlock()
}

// rotateIfOld rotates the generations if the young generation covers rememberFor.
func (r *dedupeWindow) rotateIfOld(now raftgroup.Instant) {
	if r.young.len()+r.old.len() > 0 && now-r.youngSince > raftgroup.Instant(rememberFor) {
		r.rotate(now)
	}
}

// rotate makes the young generation the old generation and forgets the previous old generation.
func (r *dedupeWindow) rotate(now raftgroup.Instant) {
	for i := range r.old.of {
		if r.forgotten == nil {
			r.forgotten = map[[16]byte]uint64{}
		}
		n := &r.old.of[i]
		r.forgotten[n.coordinator] = max(r.forgotten[n.coordinator], n.top)
	}
	r.old, r.young, r.youngSince = r.young, dedupeSet{room: r.young.most()}, now
	if len(r.forgotten) > coordinatorsMax {
		r.clear(now)
	}
}
