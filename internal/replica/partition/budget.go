// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// admit lets a request of a client in, or refuses it because the partition has spent what it may take. It is the
// leader's to decide, in the term in which it evaluates; 0 refuses nothing.
func (r *Replica) admit(term uint64, who fairshare.Principal) error {
	if term == 0 || !r.budget.Bounded() {
		return nil
	}
	if wait := r.budget.Admit(term, who, r.host.budgetClock()); wait > 0 {
		return r.tooMuch(wait)
	}
	return nil
}

// tooMuch is the refusal in the form that Cosmos DB has. Retry policies look for RetryAfterMs between the first two
// commas, or in a part between commas with one equals sign, and some of them for the status code 429.
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
	b = append(strconv.AppendInt(b, int64(ms), 10), ", Additional details='TooManyRequests (429): physical partition "...)
	b = append(strconv.AppendUint(b, uint64(r.id), 10), " has spent its "...)
	b = append(strconv.AppendInt(b, r.budget.PerSecond(), 10), " request units a second"...)
	if hot := r.hot.Load(); hot != nil {
		b = append(append(b, ", most of them on "...), *hot...)
	}
	b = append(b, '\'')
	return &dberr.Overloaded{RetryAfter: ms * time.Millisecond, Message: string(b)}
}

// hotMax is how much of the name of a logical partition is told with a refusal, in bytes.
const hotMax = 128

// SetHot says, in words, which logical partition takes most of what the partition may: refusals name it. Empty: none
// does.
func (r *Replica) SetHot(name string) {
	// The text of a refusal is taken apart at commas and equals signs, and its details end with an apostrophe.
	name = strings.NewReplacer("'", `"`, ",", ";").Replace(strings.ToValidUTF8(name[:min(len(name), hotMax)], ""))
	switch old := r.hot.Load(); {
	case name == "" && old != nil:
		r.hot.Store(nil)
	case name != "" && (old == nil || *old != name):
		r.hot.Store(&name)
	}
}

// affords is admit for a write. What may have been done already is let in, and so is a part of a recorded batch.
func (r *Replica) affords(m *command.Mutation) error {
	if !r.Budgeted() || m.Retried || m.Timestamp != 0 {
		return nil
	}
	return r.admit(r.seq.evaluating(), m.Principal)
}

// affordsRead is admit for a read. With here a follower lets it in if it has something left of what its leader has lent
// it: then lent is true. One that has not is no leader.
func (r *Replica) affordsRead(c *command.Read, here bool) (lent bool, err error) {
	if !r.budget.Bounded() {
		return false, nil
	}
	term, err := r.evaluating()
	switch {
	case err == nil:
		return false, r.admit(term, c.Principal)
	case !here:
		return false, err
	}
	wait, ok := r.slice.Admit(c.Principal, r.host.budgetClock())
	switch {
	case !ok:
		return false, err
	case wait > 0:
		r.budget.Refuse()
		return false, r.tooMuch(wait)
	}
	return true, nil
}

// Borrower is the visitor of a read of another node that takes what the leader lends to that node's replica.
type Borrower interface{ Lent(u ru.Units) }

// lend gives a follower what it asks for in a read that the leader has served.
func (r *Replica) lend(c *command.Read, v command.Visitor, lent bool) {
	if c.Owed+c.Wanted == 0 || lent {
		return
	}
	if to, ok := v.(Borrower); ok {
		to.Lent(r.budget.Lend(ru.Units(c.Owed), ru.Units(c.Wanted)))
	}
}

// Affords reports whether the replica may serve a read though it does not lead, as far as its budget is concerned: it
// has no bound, or has been lent something, or knows that the leader refuses the claimant.
func (r *Replica) Affords(who fairshare.Principal) bool {
	if !r.budget.Bounded() {
		return true
	}
	_, ok := r.slice.Admit(who, r.host.budgetClock())
	return ok
}

// Borrow makes a read that is sent to the leader ask for what this follower may spend; Lent takes that in, with what
// the read has cost.
func (r *Replica) Borrow(c *command.Read) {
	if r.budget.Bounded() {
		owed, wanted := r.slice.Wants(r.host.budgetClock())
		c.Owed, c.Wanted = int64(owed), int64(wanted)
	}
}

// Lent takes in what the leader has lent in answer to a read of some price; see Borrow.
func (r *Replica) Lent(lent, price ru.Units) {
	if r.budget.Bounded() {
		r.slice.Lend(lent, price, r.host.budgetClock())
	}
}

// Refused notes that the leader has refused a claimant's read for some time: until then this follower refuses its reads
// itself.
func (r *Replica) Refused(who fairshare.Principal, wait time.Duration) {
	if r.budget.Bounded() {
		r.slice.Refuse(who, wait, r.host.budgetClock())
	}
}

// Short is what the leader of a partition that refuses requests would borrow of partitions that share its throughput,
// 0 if it refuses none; see budget.Budget.Short.
func (r *Replica) Short() ru.Units {
	if !r.budget.Bounded() || r.seq.evaluating() == 0 {
		return 0
	}
	return r.budget.Short(r.host.budgetClock())
}

// LendIdle takes up to wanted units out of the balance of a partition that this replica leads; see
// budget.Budget.LendIdle.
func (r *Replica) LendIdle(wanted ru.Units) ru.Units {
	term := r.seq.evaluating()
	if term == 0 {
		return 0
	}
	return r.budget.LendIdle(term, wanted, r.host.budgetClock())
}

// TakeLoan adds what others have lent.
func (r *Replica) TakeLoan(u ru.Units) { r.budget.Borrow(u, r.host.budgetClock()) }

// Loans are the units that were lent to others and borrowed of them since the replica was opened.
func (r *Replica) Loans() (lent, borrowed ru.Units) { return r.budget.Loans() }

// Budgeted reports whether what the partition may take is bounded.
func (r *Replica) Budgeted() bool { return r.budget.Bounded() }

// Throughput is how many request units a second the partition may take, 0 if there is no bound.
func (r *Replica) Throughput() int64 { return r.budget.PerSecond() }

// Throughputs are what physical partitions may take.
type Throughputs struct {
	// PerSecond is in request units a second, at most budget.Most each; partitions that are not in it have no bound.
	PerSecond map[topology.PartitionID]int64
	// Children are the partitions that ordered splits make, by parent: from their birth on both take what PerSecond has
	// for the child.
	Children map[topology.PartitionID]topology.PartitionID
}

func (t *Throughputs) equal(o *Throughputs) bool {
	return maps.Equal(t.PerSecond, o.PerSecond) && maps.Equal(t.Children, o.Children)
}

// SetThroughputs says what partitions may take. It holds for replicas that come later, too. The maps must not be
// changed any more; one goroutine at a time calls it.
func (h *Host) SetThroughputs(t Throughputs) {
	if old := h.throughputs.Load(); old == nil && len(t.PerSecond) == 0 || old != nil && old.equal(&t) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.throughputs.Store(&t)
	now, replicas := h.budgetClock(), *h.replicas.Load()
	for id, r := range replicas {
		if child := t.Children[id]; replicas[child] != nil {
			id = child
		}
		r.budget.Set(t.PerSecond[id], now)
	}
}

// throughputOf is what a partition may take, 0 if there is no bound.
func (h *Host) throughputOf(id topology.PartitionID) int64 {
	if t := h.throughputs.Load(); t != nil {
		return t.PerSecond[id]
	}
	return 0
}
