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
	// rememberFor is how long the ids of applied writes are remembered at least, rememberMax how many, in two halves.
	rememberFor = 5 * time.Second
	rememberMax = 256 << 10
	// coordinatorsMax bounds the coordinators of which is remembered what was forgotten.
	coordinatorsMax = 1 << 10
)

// recent makes plain writes happen once: it remembers the ids of those that were applied here, and of those that this
// leader has under way. All replicas apply the same, so a new leader remembers what the old one did. It is in memory:
// it begins empty when the replica is opened and when a snapshot is installed.
//
// A coordinator numbers its commands as they come. Invariant: the id of every write that was applied here since the
// memory began is remembered, or its number is not above the highest of its coordinator that was forgotten. So an id
// that is neither was never applied since then, whatever any clock says: clocks only decide how early something is
// forgotten, and that costs the sender the answer ErrUncertain, at worst.
//
// When the memory began is told in values of Host.Memory, which nodes tell each other. A sender that had been told a
// value which is not older than the memory, and made its first attempt after that, asks for a write that cannot have
// been applied before the memory began. That holds of first attempts as well: one that was long on its way may come
// when a later one was applied, by another leader, and forgotten here.
type recent struct {
	mu sync.Mutex
	// young and old are the ids that were applied, those of old before youngSince.
	young, old remembered
	youngSince raftgroup.Instant
	// forgotten is the highest number of each coordinator that is not remembered any more.
	forgotten map[[16]byte]uint64
	// memory is Host.memory, and since the value that the memory began with, 0 if nothing was applied before.
	memory   *atomic.Uint64
	since    uint64
	underWay map[command.DedupeID]struct{}
}

// memoryLife is how far values of Host.Memory of one process may be apart.
const memoryLife = 1 << 32

// newMemory is the first value of a process.
func newMemory() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return uint64(binary.BigEndian.Uint32(b[:])) * memoryLife
}

// reset forgets what was applied: nothing is known of the time before now.
func (r *recent) reset(now raftgroup.Instant) {
	r.mu.Lock()
	r.clear(now)
	r.mu.Unlock()
}

// clear counts the memory's beginning when it is empty: whoever is told of it sends what it sends first after that.
func (r *recent) clear(now raftgroup.Instant) {
	r.young, r.old, r.forgotten = remembered{}, remembered{}, nil
	r.since, r.youngSince = r.memory.Add(1), now
}

// complete says that nothing was applied before the memory began.
func (r *recent) complete() {
	r.mu.Lock()
	r.since = 0
	r.mu.Unlock()
}

// inherit makes the memory that of the partition that this one has split off from.
func (r *recent) inherit(from *recent) {
	from.mu.Lock()
	defer from.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = from.young.clone(), from.old.clone()
	r.youngSince, r.forgotten, r.since = from.youngSince, maps.Clone(from.forgotten), from.since
}

// join adds the memory of a partition that becomes part of this one. What is remembered of either is, and what may have
// been forgotten by one of them may have been by both.
func (r *recent) join(from *recent) {
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

// reaches reports whether the memory had begun when its node told a value.
func (r *recent) reaches(known uint64) bool {
	return r.since == 0 || known >= r.since && known/memoryLife == r.since/memoryLife
}

// enter notes a write that is about to be proposed, which leave takes back. applied says that it need not be: it was
// applied before, and is durable. The error is ErrUnderWay, ErrUncertain or *Forgotten.
func (r *recent) enter(m *command.Mutation) (applied bool, err error) {
	id := m.Dedupe
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.underWay[id]; ok {
		return false, ErrUnderWay
	}
	if r.young.has(id) || r.old.has(id) {
		return true, nil
	}
	if top, ok := r.forgotten[id.Coordinator]; ok && id.Sequence <= top {
		return false, ErrUncertain
	}
	if m.Retried && !r.reaches(m.Known) {
		return false, ErrUncertain
	}
	if m.Sent && !r.reaches(m.Known) {
		return false, &Forgotten{Memory: r.memory.Load()}
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
		if r.young.len() >= rememberMax/2 {
			r.turn(now)
		}
		if invariant.Enabled {
			invariant.Check(!r.young.has(id) && !r.old.has(id), "I8: write %v is applied twice", id)
		}
		r.young.add(id)
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
	if r.young.len()+r.old.len() > 0 && now-r.youngSince > raftgroup.Instant(rememberFor) {
		r.turn(now)
	}
}

// turn makes the young ids the old ones, and forgets those.
func (r *recent) turn(now raftgroup.Instant) {
	for i := range r.old.of {
		if r.forgotten == nil {
			r.forgotten = map[[16]byte]uint64{}
		}
		n := &r.old.of[i]
		r.forgotten[n.coordinator] = max(r.forgotten[n.coordinator], n.top)
	}
	r.old, r.young, r.youngSince = r.young, remembered{room: r.young.most()}, now
	if len(r.forgotten) > coordinatorsMax {
		r.clear(now)
	}
}
