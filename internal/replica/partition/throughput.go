// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/budget"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Throughput enforces the throughput limit of a physical partition. Requests to the leader spend the partition's
// budget. Reads from a follower spend units that the leader has lent to the follower.
type Throughput struct {
	host   *Host
	set    *replicaSet
	budget budget.Budget
	slice  budget.Slice
	// hot is the readable name of the logical partition with the highest load, or nil.
	hot atomic.Pointer[string]
}

// admit returns an error if the partition has exceeded its throughput. term is the term in which this replica leads. If
// term is 0, admit admits every request.
func (t *Throughput) admit(term uint64, who fairshare.Principal) error {
	if term == 0 || !t.budget.Bounded() {
		return nil
	}
	if wait := t.budget.Admit(term, who, t.host.budgetClock()); wait > 0 {
		return t.throttleError(wait)
	}
	return nil
}

// throttleError returns an error in the format of Cosmos DB. Clients' retry policies search for RetryAfterMs between
// the first two commas, or in a part between commas that contains one equals sign. Some policies also search for the
// status code 429.
func (t *Throughput) throttleError(wait time.Duration) error {
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
	b = append(strconv.AppendUint(b, uint64(t.set.id), 10), " has used its "...)
	b = append(strconv.AppendInt(b, t.budget.PerSecond(), 10), " request units per second"...)
	if hot := t.hot.Load(); hot != nil {
		b = append(append(b, ", mostly for "...), *hot...)
	}
	b = append(b, '\'')
	return &dberr.Overloaded{RetryAfter: ms * time.Millisecond, Message: string(b)}
}

// hotMax is the maximum length, in bytes, of the name of a logical partition in an error.
const hotMax = 128

// SetHot sets the readable name of the logical partition with the highest load. Throttling errors contain this name. An
// empty name means that the partition is unknown.
func (t *Throughput) SetHot(name string) {
	// Clients split the error at commas and equals signs, and an apostrophe ends the details.
	name = strings.NewReplacer("'", `"`, ",", ";").Replace(strings.ToValidUTF8(name[:min(len(name), hotMax)], ""))
	switch old := t.hot.Load(); {
	case name == "" && old != nil:
		t.hot.Store(nil)
	case name != "" && (old == nil || *old != name):
		t.hot.Store(&name)
	}
}

// admitWrite executes admit for a write. It always admits a write that may have already been applied and a part of a
// recorded batch.
func (t *Throughput) admitWrite(m *command.Mutation) error {
	if !t.Limited() || m.Retried || m.Timestamp != 0 {
		return nil
	}
	return t.admit(t.set.seq.evaluating(), m.Principal)
}

// admitRead executes admit for a read. If here is true, a follower admits the read if it has borrowed units left, and
// lent is true. A follower without units returns *NotLeader.
func (t *Throughput) admitRead(c *command.Read, here bool) (lent bool, err error) {
	if !t.budget.Bounded() {
		return false, nil
	}
	term, err := t.set.evaluating()
	switch {
	case err == nil:
		return false, t.admit(term, c.Principal)
	case !here:
		return false, err
	}
	wait, ok := t.slice.Admit(c.Principal, t.host.budgetClock())
	switch {
	case !ok:
		return false, err
	case wait > 0:
		t.budget.Refuse()
		return false, t.throttleError(wait)
	}
	return true, nil
}

// Borrower is the visitor of a read from another node. It receives the units that the leader lends to the other node's
// replica.
type Borrower interface{ Lent(u ru.Units) }

// lend lends a follower the units that a served read has requested.
func (t *Throughput) lend(c *command.Read, v command.Visitor, lent bool) {
	if c.Owed+c.Wanted == 0 || lent {
		return
	}
	if to, ok := v.(Borrower); ok {
		to.Lent(t.budget.Lend(ru.Units(c.Owed), ru.Units(c.Wanted)))
	}
}

// AllowsLocalRead reports whether the budget allows the replica to process a read as a follower. It returns true if the
// budget is unlimited, if the replica has borrowed units, or if the leader is known to reject the principal.
func (t *Throughput) AllowsLocalRead(who fairshare.Principal) bool {
	if !t.budget.Bounded() {
		return true
	}
	_, ok := t.slice.Admit(who, t.host.budgetClock())
	return ok
}

// Borrow adds a request for units to a read that is sent to the leader.
func (t *Throughput) Borrow(c *command.Read) {
	if t.budget.Bounded() {
		owed, wanted := t.slice.Request(t.host.budgetClock())
		c.Owed, c.Wanted = int64(owed), int64(wanted)
	}
}

// Lent adds the units that the leader has lent in the response to a read. price is the price of the read.
func (t *Throughput) Lent(lent, price ru.Units) {
	if t.budget.Bounded() {
		t.slice.Lend(lent, price, t.host.budgetClock())
	}
}

// Refused records that the leader has rejected a principal's read. Until wait has passed, this follower also rejects
// the principal's reads.
func (t *Throughput) Refused(who fairshare.Principal, wait time.Duration) {
	if t.budget.Bounded() {
		t.slice.Refuse(who, wait, t.host.budgetClock())
	}
}

// Shortfall returns the units that the leader of a throttled partition needs to borrow from other partitions; see
// budget.Budget.Shortfall.
func (t *Throughput) Shortfall() ru.Units {
	if !t.budget.Bounded() || t.set.seq.evaluating() == 0 {
		return 0
	}
	return t.budget.Shortfall(t.host.budgetClock())
}

// LendIdle takes up to wanted units from the balance of a partition that this replica leads; see
// budget.Budget.LendIdle.
func (t *Throughput) LendIdle(wanted ru.Units) ru.Units {
	term := t.set.seq.evaluating()
	if term == 0 {
		return 0
	}
	return t.budget.LendIdle(term, wanted, t.host.budgetClock())
}

// TakeLoan adds units that other partitions have lent.
func (t *Throughput) TakeLoan(u ru.Units) { t.budget.Borrow(u, t.host.budgetClock()) }

// Loans returns the units that this partition has lent to and borrowed from other partitions since the replica was
// opened.
func (t *Throughput) Loans() (lent, borrowed ru.Units) { return t.budget.Loans() }

// Limited reports whether the throughput of the partition is limited.
func (t *Throughput) Limited() bool { return t.budget.Bounded() }

// PerSecond returns the throughput limit in request units per second, or 0 if the throughput is unlimited.
func (t *Throughput) PerSecond() int64 { return t.budget.PerSecond() }

// charge charges a request to the budget or, if lent is true, to the borrowed units of a follower.
func (t *Throughput) charge(who fairshare.Principal, lent bool, u ru.Units) {
	if lent {
		t.slice.Spend(u)
	} else {
		t.budget.Charge(who, u)
	}
}

// chargeEvaluation charges a principal for work beyond the price of a read.
func (t *Throughput) chargeEvaluation(who fairshare.Principal, u ru.Units) {
	if t.budget.Bounded() {
		t.charge(who, t.set.seq.evaluating() == 0, u)
	}
}

func (t *Throughput) bounds() usage.Bounds {
	return usage.Bounds{PerSecond: t.budget.PerSecond(), Throttled: t.budget.Throttled()}
}

// Throughputs holds the throughput limits of physical partitions.
type Throughputs struct {
	// PerSecond maps partitions to limits in request units per second. The maximum is budget.MaxPerSecond. Partitions
	// that are not in the map are unlimited.
	PerSecond map[topology.PartitionID]int64
	// Children maps the parents of pending splits to their children. When a child is created, the parent and the child
	// get the limit of the child.
	Children map[topology.PartitionID]topology.PartitionID
}

func (t *Throughputs) equal(o *Throughputs) bool {
	return maps.Equal(t.PerSecond, o.PerSecond) && maps.Equal(t.Children, o.Children)
}

// SetThroughputs sets the throughput limits of current and future replicas. The caller must not modify the maps
// afterward. Calls must not be concurrent.
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
		r.throughput.budget.Set(t.PerSecond[id], now)
	}
}

// throughputOf returns the limit of a partition, or 0 if the partition is unlimited.
func (e *extensions) throughputOf(id topology.PartitionID) int64 {
	if t := e.throughputs.Load(); t != nil {
		return t.PerSecond[id]
	}
	return 0
}
