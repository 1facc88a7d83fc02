// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

const (
	// ThroughputMax is the most that a physical partition may take, in request units a second.
	ThroughputMax = 10_000
	// burstMax is up to which a partition of less may take, in request units a second, what it has not used in
	// burstFor.
	burstMax = 3_000
	burstFor = 300 * time.Second
	// beginFor is the part of it that a new leader begins with at most: what the one before has spent it does not know.
	beginFor = time.Second
	// grain is what a budget without a burst may save: whoever asks in bunches gets what is due to him.
	grain = 200 * time.Millisecond
)

// budget bounds what a partition may take. It works by debt: a request is let in while the balance is positive, and
// charged when it is known what it has cost, so the balance may become negative.
//
// A balance is kept as the instant at which it was or will be zero. To charge is to move that by the time in which what
// is charged comes back, and never to begin earlier than what may be saved. So time refills it, nobody has to, and a
// change of the rate keeps what is saved as time.
type budget struct {
	rate atomic.Pointer[rate]
	// sustained is the balance at the partition's own rate; peak that at burstMax, which bounds how fast savings are
	// spent.
	sustained, peak atomic.Int64
	// seen is when a request was let in last: what it costs is charged as of then, so that the clock is read once.
	seen atomic.Int64
	// term is that of the leader whose balance it is.
	term atomic.Uint64
	// throttled counts the requests that were refused.
	throttled atomic.Uint64
}

// rate is what a partition may take.
type rate struct {
	perSecond int64
	// each is the time in which a ru.Units comes back, saved what may be saved; eachPeak is 0 where there is no burst.
	each, eachPeak float64
	saved          time.Duration
}

func rateOf(perSecond int64) *rate {
	if perSecond <= 0 {
		return nil
	}
	each := func(perSecond int64) float64 { return float64(time.Second) / float64(perSecond) / float64(ru.Unit) }
	r := &rate{perSecond: min(perSecond, ThroughputMax), saved: grain}
	r.each = each(r.perSecond)
	if r.perSecond < burstMax {
		r.eachPeak, r.saved = each(burstMax), burstFor
	}
	return r
}

// set changes the rate; 0 is none.
func (b *budget) set(perSecond int64, now raftgroup.Instant) {
	before := b.rate.Load()
	next := rateOf(perSecond)
	if before == nil && next != nil {
		b.begin(now)
	}
	b.rate.Store(next)
}

// begin gives it what a new leader begins with.
func (b *budget) begin(now raftgroup.Instant) {
	b.sustained.Store(max(b.sustained.Load(), int64(now)-int64(beginFor)))
	b.peak.Store(max(b.peak.Load(), int64(now)-int64(grain)))
	b.seen.Store(int64(now))
}

// inherit takes the rate and the balance of a parent: until the map has a split each of both may take as much as the
// whole did, then the rate is divided, and the balance, as time, with it.
func (b *budget) inherit(parent *budget) {
	b.rate.Store(parent.rate.Load())
	b.sustained.Store(parent.sustained.Load())
	b.peak.Store(parent.peak.Load())
	b.seen.Store(parent.seen.Load())
}

// absorb takes the worse balance of both, when another partition becomes part of this one.
func (b *budget) absorb(other *budget) {
	b.sustained.Store(max(b.sustained.Load(), other.sustained.Load()))
	b.peak.Store(max(b.peak.Load(), other.peak.Load()))
}

// wait is how long the next request has to wait, 0 if it is let in.
func (b *budget) wait(rt *rate, now raftgroup.Instant) time.Duration {
	wait := b.sustained.Load() - int64(now)
	if rt.eachPeak > 0 {
		wait = max(wait, b.peak.Load()-int64(now))
	}
	return time.Duration(max(wait, 0))
}

// charge takes from the balance.
func (b *budget) charge(u ru.Units) {
	rt := b.rate.Load()
	if rt == nil || u == 0 {
		return
	}
	now := b.seen.Load()
	spend(&b.sustained, now-int64(rt.saved), float64(u)*rt.each)
	if rt.eachPeak > 0 {
		spend(&b.peak, now-int64(grain), float64(u)*rt.eachPeak)
	}
}

func spend(zero *atomic.Int64, least int64, by float64) {
	for {
		old := zero.Load()
		if zero.CompareAndSwap(old, max(old, least)+int64(by)) {
			return
		}
	}
}

// admit lets a request of a client in, or refuses it because the partition has spent what it may take. It is the
// leader's to decide, in the term in which it evaluates; 0 refuses nothing.
func (r *Replica) admit(term uint64) error {
	b := &r.budget
	rt := b.rate.Load()
	if rt == nil || term == 0 {
		return nil
	}
	now := r.host.budgetClock()
	if old := b.term.Load(); old != term && b.term.CompareAndSwap(old, term) {
		b.begin(now)
	}
	wait := b.wait(rt, now)
	if wait == 0 {
		b.seen.Store(int64(now))
		return nil
	}
	b.throttled.Add(1)
	return r.tooMuch(rt, wait)
}

// tooMuch is the refusal in the form that Cosmos DB has, whose retry policies look for RetryAfterMs.
func (r *Replica) tooMuch(rt *rate, wait time.Duration) error {
	ms := (wait + time.Millisecond - 1) / time.Millisecond
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // a random UUID
	b := append(make([]byte, 0, 192), "Request rate is large: ActivityID="...)
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		b = hex.AppendEncode(b, id[[...]int{0, 4, 6, 8, 10}[i]:end])
		b = append(b, '-')
	}
	b = append(b[:len(b)-1], ", RetryAfterMs="...)
	b = append(strconv.AppendInt(b, int64(ms), 10), ", Additional details='Physical partition "...)
	b = append(strconv.AppendUint(b, uint64(r.id), 10), " has spent its "...)
	b = append(strconv.AppendInt(b, rt.perSecond, 10), " request units a second'"...)
	return &dberr.Overloaded{RetryAfter: ms * time.Millisecond, Message: string(b)}
}

// affords is admit for a write. What may have been done already is let in, and so is a part of a recorded batch.
func (r *Replica) affords(m *command.Mutation) error {
	if !r.Budgeted() || m.Retried || m.Timestamp != 0 {
		return nil
	}
	return r.admit(r.seq.evaluating())
}

// Budgeted reports whether what the partition may take is bounded. Then its leader alone answers, because it keeps
// the balance.
func (r *Replica) Budgeted() bool { return r.budget.rate.Load() != nil }

// SetThroughputs says how many request units a second partitions may take, at most ThroughputMax each; those that are
// not among them have no bound. It holds for replicas that come later, too. The map must not be changed any more;
// one goroutine at a time calls it.
func (h *Host) SetThroughputs(perSecond map[topology.PartitionID]int64) {
	if old := h.throughputs.Load(); old == nil && len(perSecond) == 0 || old != nil && maps.Equal(*old, perSecond) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.throughputs.Store(&perSecond)
	now := h.budgetClock()
	for id, r := range *h.replicas.Load() {
		r.budget.set(perSecond[id], now)
	}
}

// throughputOf is what a partition may take, 0 if there is no bound.
func (h *Host) throughputOf(id topology.PartitionID) int64 {
	if m := h.throughputs.Load(); m != nil {
		return (*m)[id]
	}
	return 0
}
