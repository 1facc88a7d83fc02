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
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// admit admits a client's request, or rejects it because the partition has exceeded its throughput. The leader decides,
// in the term in which it evaluates. A term of 0 rejects nothing.
func (r *Replica) admit(term uint64, who fairshare.Principal) error {
	if term == 0 || !r.budget.Bounded() {
		return nil
	}
	if wait := r.budget.Admit(term, who, r.host.budgetClock()); wait > 0 {
		return r.throttleError(wait)
	}
	return nil
}

// throttleError returns an error in the format of Cosmos DB. Retry policies look for RetryAfterMs between the first two
// commas, or in a part between commas with one equals sign. Some of them also look for the status code 429.
func (r *Replica) throttleError(wait time.Duration) error {
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
	b = append(strconv.AppendInt(b, int64(ms), 10), ", Additional details='TooManyRequests (429): physical "+
		"partition "...)
	b = append(strconv.AppendUint(b, uint64(r.id), 10), " has used its "...)
	b = append(strconv.AppendInt(b, r.budget.PerSecond(), 10), " request units per second"...)
	if hot := r.hot.Load(); hot != nil {
		b = append(append(b, ", mostly for "...), *hot...)
	}
	b = append(b, '\'')
	return &dberr.Overloaded{RetryAfter: ms * time.Millisecond, Message: string(b)}
}

// hotMax is the maximum length, in bytes, of the name of a logical partition in an error.
const hotMax = 128

// SetHot sets the readable name of the logical partition with the highest load, which is included in throttling errors.
// An empty name means that none exists.
func (r *Replica) SetHot(name string) {
	// Clients parse the error at commas and equals signs, and its details end with an apostrophe.
	name = strings.NewReplacer("'", `"`, ",", ";").Replace(strings.ToValidUTF8(name[:min(len(name), hotMax)], ""))
	switch old := r.hot.Load(); {
	case name == "" && old != nil:
		r.hot.Store(nil)
	case name != "" && (old == nil || *old != name):
		r.hot.Store(&name)
	}
}

// admitWrite is admit for a write. It admits a write that may already have been applied, and a part of a recorded
// batch.
func (r *Replica) admitWrite(m *command.Mutation) error {
	if !r.Budgeted() || m.Retried || m.Timestamp != 0 {
		return nil
	}
	return r.admit(r.seq.evaluating(), m.Principal)
}

// admitRead is admit for a read. With here, a follower admits the read if it has units left that its leader has lent;
// lent is then true. A follower without units returns the same error as a replica that does not lead.
func (r *Replica) admitRead(c *command.Read, here bool) (lent bool, err error) {
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
		return false, r.throttleError(wait)
	}
	return true, nil
}

// Borrower is the visitor of a read from another node. It receives the units that the leader lends to that node's
// replica.
type Borrower interface{ Lent(u ru.Units) }

// lend lends a follower the units requested in a read that the leader has served.
func (r *Replica) lend(c *command.Read, v command.Visitor, lent bool) {
	if c.Owed+c.Wanted == 0 || lent {
		return
	}
	if to, ok := v.(Borrower); ok {
		to.Lent(r.budget.Lend(ru.Units(c.Owed), ru.Units(c.Wanted)))
	}
}

// AllowsLocalRead reports whether the budget allows the replica to serve a read as a follower. This is the case if the
// budget is unlimited, if the replica has borrowed units, or if it knows that the leader rejects the claimant.
func (r *Replica) AllowsLocalRead(who fairshare.Principal) bool {
	if !r.budget.Bounded() {
		return true
	}
	_, ok := r.slice.Admit(who, r.host.budgetClock())
	return ok
}

// Borrow adds a request for units to a read that is sent to the leader. Lent receives them, with the cost of the read.
func (r *Replica) Borrow(c *command.Read) {
	if r.budget.Bounded() {
		owed, wanted := r.slice.Request(r.host.budgetClock())
		c.Owed, c.Wanted = int64(owed), int64(wanted)
	}
}

// Lent receives the units that the leader has lent in the response to a read of the given price; see Borrow.
func (r *Replica) Lent(lent, price ru.Units) {
	if r.budget.Bounded() {
		r.slice.Lend(lent, price, r.host.budgetClock())
	}
}

// Refused records that the leader has rejected a claimant's read. Until wait has passed, this follower rejects the
// claimant's reads itself.
func (r *Replica) Refused(who fairshare.Principal, wait time.Duration) {
	if r.budget.Bounded() {
		r.slice.Refuse(who, wait, r.host.budgetClock())
	}
}

// Spend charges a principal for evaluating the rows of a read, in addition to the price of the read. A follower owes
// this amount to its leader: it serves nothing until its next read at the leader has paid. key is nil if the request
// has read a range.
func (r *Replica) Spend(who fairshare.Principal, tok token.Token, key []byte, u ru.Units) {
	kind := usage.Slice
	if key == nil {
		kind = usage.Scan
	}
	r.usage.Evaluated(kind, tok, key, u)
	switch {
	case !r.budget.Bounded():
	case r.seq.evaluating() != 0:
		r.budget.Charge(who, u)
	default:
		r.slice.Spend(u)
	}
}

// Shortfall returns the units that the leader of a throttled partition would borrow from other partitions with the same
// throughput, or 0; see budget.Budget.Shortfall.
func (r *Replica) Shortfall() ru.Units {
	if !r.budget.Bounded() || r.seq.evaluating() == 0 {
		return 0
	}
	return r.budget.Shortfall(r.host.budgetClock())
}

// LendIdle takes up to wanted units from the balance of a partition that this replica leads; see
// budget.Budget.LendIdle.
func (r *Replica) LendIdle(wanted ru.Units) ru.Units {
	term := r.seq.evaluating()
	if term == 0 {
		return 0
	}
	return r.budget.LendIdle(term, wanted, r.host.budgetClock())
}

// TakeLoan adds units lent by other partitions.
func (r *Replica) TakeLoan(u ru.Units) { r.budget.Borrow(u, r.host.budgetClock()) }

// Loans returns the units lent to and borrowed from other partitions since the replica was opened.
func (r *Replica) Loans() (lent, borrowed ru.Units) { return r.budget.Loans() }

// Budgeted reports whether the throughput of the partition is limited.
func (r *Replica) Budgeted() bool { return r.budget.Bounded() }

// Throughput returns the throughput limit in request units per second, or 0 if none exists.
func (r *Replica) Throughput() int64 { return r.budget.PerSecond() }

// Throughputs holds the throughput limits of physical partitions.
type Throughputs struct {
	// PerSecond holds limits in request units per second, at most budget.MaxPerSecond each. Partitions that are not in
	// it are unlimited.
	PerSecond map[topology.PartitionID]int64
	// Children holds the children of pending splits, by parent. When the child is created, both get the limit that
	// PerSecond has for the child.
	Children map[topology.PartitionID]topology.PartitionID
}

func (t *Throughputs) equal(o *Throughputs) bool {
	return maps.Equal(t.PerSecond, o.PerSecond) && maps.Equal(t.Children, o.Children)
}

// SetThroughputs sets the throughput limits, also for future replicas. The caller must not modify the maps afterward.
// Calls must not be concurrent.
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

// throughputOf returns the limit of a partition, or 0 if none exists.
func (h *Host) throughputOf(id topology.PartitionID) int64 {
	if t := h.throughputs.Load(); t != nil {
		return t.PerSecond[id]
	}
	return 0
}
