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
	// rememberFor is the minimum time for which the IDs of applied writes are remembered. rememberMax is the maximum
	// number of IDs, in two generations.
	rememberFor = 5 * time.Second
	rememberMax = 256 << 10
	// coordinatorsMax bounds the coordinators for which the highest forgotten number is kept.
	coordinatorsMax = 1 << 10
)

// dedupeWindow ensures that plain writes are applied once. It remembers the IDs of writes that were applied by this
// replica, and of writes that this leader has in progress. All replicas apply the same writes, so a new leader
// remembers the same IDs as the old one. The window is in memory only. It starts empty when the replica is opened and
// when a snapshot is installed.
//
// A coordinator numbers its commands in order. Invariant: the ID of every write applied by this replica since the
// window started is remembered, or its number is at most the highest forgotten number of its coordinator. An ID for
// which neither holds has not been applied since then, regardless of the clocks. Clocks only decide when IDs are
// forgotten. Forgetting an ID too early causes ErrUncertain at worst.
//
// The start of the window is expressed as a value of Host.DedupeEpoch, which nodes exchange. Suppose that a sender knew
// an epoch not older than the start of the window, and made its first attempt after that. Then the write cannot have
// been applied before the window started. This also matters for first attempts: a delayed first attempt may arrive
// after a later attempt was applied by another leader and forgotten here.
type dedupeWindow struct {
	mu sync.Mutex
	// young and old hold the IDs of applied writes; the IDs in old are from before youngSince.
	young, old dedupeSet
	youngSince raftgroup.Instant
	// forgotten holds the highest forgotten number of each coordinator.
	forgotten map[[16]byte]uint64
	// epoch is Host.dedupeEpoch. since is its value at the start of the window, or 0 if nothing was applied before.
	epoch      *atomic.Uint64
	since      uint64
	inProgress map[command.DedupeID]struct{}
}

// epochSpan is the maximum difference between values of Host.DedupeEpoch of one process.
const epochSpan = 1 << 32

// newDedupeEpoch returns the first epoch of a process.
func newDedupeEpoch() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.BigEndian.Uint32(b[:])) * epochSpan
}

// reset forgets all IDs: nothing is known about writes before now.
func (r *dedupeWindow) reset(now raftgroup.Instant) {
	r.mu.Lock()
	r.clear(now)
	r.mu.Unlock()
}

// clear increments the epoch when the window is empty: a sender that knows the new epoch makes its first attempts after
// the increment.
func (r *dedupeWindow) clear(now raftgroup.Instant) {
	r.young, r.old, r.forgotten = dedupeSet{}, dedupeSet{}, nil
	r.since, r.youngSince = r.epoch.Add(1), now
}

// markComplete records that nothing was applied before the window started.
func (r *dedupeWindow) markComplete() {
	r.mu.Lock()
	r.since = 0
	r.mu.Unlock()
}

// inherit copies the window of the partition from which this one has split off.
func (r *dedupeWindow) inherit(from *dedupeWindow) {
	from.mu.Lock()
	defer from.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = from.young.clone(), from.old.clone()
	r.youngSince, r.forgotten, r.since = from.youngSince, maps.Clone(from.forgotten), from.since
}

// merge adds the window of a partition that is merged into this one. IDs remembered by either window are remembered,
// and IDs that either may have forgotten may be forgotten.
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

// covers reports whether the window had started when its node reported an epoch.
func (r *dedupeWindow) covers(known uint64) bool {
	return r.since == 0 || known >= r.since && known/epochSpan == r.since/epochSpan
}

// begin registers a write that is about to be proposed; end unregisters it. applied reports whether the write was
// already applied and is durable, so it need not be proposed. The error is ErrInProgress, ErrUncertain, or
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

// end unregisters a write. If the write was applied, remember must have been called before.
func (r *dedupeWindow) end(id command.DedupeID) {
	r.mu.Lock()
	delete(r.inProgress, id)
	r.mu.Unlock()
}

// remember records applied writes.
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

// expire drops old IDs even if there are no new writes.
func (r *dedupeWindow) expire(now raftgroup.Instant) {
	r.mu.Lock()
	r.rotateIfOld(now)
	r.mu.Unlock()
}

// rotateIfOld rotates the generations once the young generation is old enough to cover rememberFor alone.
func (r *dedupeWindow) rotateIfOld(now raftgroup.Instant) {
	if r.young.len()+r.old.len() > 0 && now-r.youngSince > raftgroup.Instant(rememberFor) {
		r.rotate(now)
	}
}

// rotate makes the young IDs the old ones, and forgets the previous old IDs.
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
