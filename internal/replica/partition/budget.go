// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// admit lets a request of a client in, or refuses it because the partition has spent what it may take. It is the
// leader's to decide, in the term in which it evaluates; 0 refuses nothing.
func (r *Replica) admit(term uint64) error {
	if term == 0 || !r.budget.Bounded() {
		return nil
	}
	if wait := r.budget.Admit(term, r.host.budgetClock()); wait > 0 {
		return r.tooMuch(wait)
	}
	return nil
}

// tooMuch is the refusal in the form that Cosmos DB has, whose retry policies look for RetryAfterMs.
func (r *Replica) tooMuch(wait time.Duration) error {
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
	b = append(strconv.AppendInt(b, r.budget.PerSecond(), 10), " request units a second'"...)
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
func (r *Replica) Budgeted() bool { return r.budget.Bounded() }

// SetThroughputs says how many request units a second partitions may take, at most budget.Most each; those that are
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
		r.budget.Set(perSecond[id], now)
	}
}

// throughputOf is what a partition may take, 0 if there is no bound.
func (h *Host) throughputOf(id topology.PartitionID) int64 {
	if m := h.throughputs.Load(); m != nil {
		return (*m)[id]
	}
	return 0
}
