// SPDX-License-Identifier: Apache-2.0

// Package meter limits the evaluation of expressions. It limits the allocated memory, the work, and the number of
// concurrent evaluations.
//
// Guarantees:
//
//   - (ME1) An evaluation reserves memory before it allocates. All evaluations of a node together never reserve more
//     memory than their Pool contains.
//   - (ME2) An evaluation ends soon after its context ends, its deadline passes, or its work limit is reached.
//   - (ME3) An evaluation that takes longer than a few milliseconds needs a slot. Package fairshare describes how
//     slots are shared.
//
// A nil Meter imposes no limits. Tests need no meter, and neither does code that evaluates constants.
package meter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/sched"
)

// Pool is an amount of memory that evaluations share. A Pool is safe for concurrent use.
type Pool struct {
	max  int64
	used atomic.Int64
}

// NewPool returns a pool of max bytes.
func NewPool(max int64) *Pool { return &Pool{max: max} }

// Take reserves n bytes. Take returns false if fewer than n bytes are available.
func (p *Pool) Take(n int64) bool {
	if p.used.Add(n) > p.max {
		p.used.Add(-n)
		return false
	}
	return true
}

// Give releases n bytes.
func (p *Pool) Give(n int64) { p.used.Add(-n) }

// Used returns the number of reserved bytes.
func (p *Pool) Used() int64 { return p.used.Load() }

// Max returns the size of the pool.
func (p *Pool) Max() int64 { return p.max }

const (
	// free is the memory that an evaluation may hold without a reservation. grain is the unit in which a reservation
	// grows.
	free, grain = 64 << 10, 256 << 10
	// stride is the number of steps between two checks of the context and the clock. It corresponds to a tenth of a
	// millisecond of work.
	stride = 2048
	// turn is the time for which an evaluation may run before it needs a slot. It is also the time for which it keeps a
	// slot while other evaluations wait.
	turn = 10 * time.Millisecond
	// StepsMax is the amount of work that an evaluation may do in addition to its allowance. It corresponds to two
	// seconds of common steps, or up to five seconds of the slowest steps.
	StepsMax = 60_000_000
)

// Limits are the limits of an evaluation. The zero value limits only the work.
type Limits struct {
	// Pool is the source of memory. A nil Pool means unlimited memory.
	Pool *Pool
	// Bytes is the maximum memory of the evaluation, or 0 for no limit.
	Bytes int64
	// When Deadline has passed, the evaluation ends with the error Late. Clock returns the current time. Without a
	// Clock or a Deadline, the evaluation has no deadline.
	Deadline time.Time
	Clock    sched.Clock
	Late     error
	// Slots limits the number of concurrent evaluations. A nil value means no limit. Who is the principal of the
	// evaluation.
	Slots *fairshare.Slots
	Who   fairshare.Principal
	// Steps replaces StepsMax unless it is 0.
	Steps int64
}

// Meter measures one evaluation. A Meter belongs to one goroutine.
type Meter struct {
	ctx    context.Context
	limits Limits

	// kept is the number of bytes that are released individually. passing is the number of bytes that Mark and Release
	// manage.
	kept, passing int64
	// granted is the number of bytes that the evaluation may use without a further reservation. taken is the part of
	// granted that is reserved in the pool.
	granted, taken int64

	// left is the number of steps until the next check. done is the number of steps up to that check. allowed is the
	// number of permitted steps in addition to StepsMax.
	left          int
	done, allowed int64
	// looked is the time of the last check. ran is the running time since the last turn. If the evaluation has a slot,
	// ran is the running time in the slot.
	looked time.Time
	ran    time.Duration
	inSlot bool
	err    error
	// exhausted means that the work limit or the deadline caused err.
	exhausted bool
}

// New starts an evaluation. The caller must call Close to end it.
func New(ctx context.Context, l Limits) *Meter {
	m := &Meter{}
	m.Reset(ctx, l)
	return m
}

// Reset starts an evaluation in a meter that is not in use.
func (m *Meter) Reset(ctx context.Context, l Limits) {
	if l.Steps == 0 {
		l.Steps = StepsMax
	}
	*m = Meter{ctx: ctx, limits: l, granted: free, left: stride}
	if l.Bytes > 0 {
		m.granted = min(free, l.Bytes)
	}
}

// Close releases all memory and slots that the evaluation holds.
func (m *Meter) Close() {
	if m == nil {
		return
	}
	m.Pause()
	if m.taken > 0 {
		m.limits.Pool.Give(m.taken)
	}
	m.granted, m.taken, m.kept, m.passing = 0, 0, 0, 0
}

// Context returns the evaluation's context.
func (m *Meter) Context() context.Context {
	if m == nil || m.ctx == nil {
		return context.Background()
	}
	return m.ctx
}

// Who returns the principal.
func (m *Meter) Who() (who fairshare.Principal) {
	if m != nil {
		who = m.limits.Who
	}
	return who
}

// Alloc must be called before n bytes are allocated. The bytes count until Release is called with an earlier Mark.
func (m *Meter) Alloc(n int) error {
	if m == nil {
		return nil
	}
	if m.passing += int64(n); m.kept+m.passing <= m.granted {
		return m.err
	}
	return m.grow()
}

// Keep must be called before n bytes are allocated. The bytes count until Keep is called with -n.
func (m *Meter) Keep(n int) error {
	if m == nil {
		return nil
	}
	if m.kept += int64(n); m.kept+m.passing <= m.granted {
		return m.err
	}
	return m.grow()
}

// Mark returns the current count of allocated bytes. Release can return to this count.
func (m *Meter) Mark() int64 {
	if m == nil {
		return 0
	}
	return m.passing
}

// Release records that all memory allocated since Mark has been released.
func (m *Meter) Release(mark int64) {
	if m != nil {
		m.passing = mark
	}
}

// grow reserves more memory.
func (m *Meter) grow() error {
	if m.err != nil {
		return m.err
	}
	used := m.kept + m.passing
	if l := m.limits.Bytes; l > 0 && used > l {
		return m.fail(dberr.Invalidf("The statement creates values of more than %d bytes: select fewer or "+
			"smaller values", l))
	}
	more := max(grain, used-m.granted)
	if m.limits.Pool != nil {
		if !m.limits.Pool.Take(more) {
			return m.fail(&dberr.Overloaded{Message: "The node is evaluating too many large expressions: retry " +
				"later, or " +
				"select fewer or smaller values"})
		}
		m.taken += more
	}
	m.granted += more
	return nil
}

func (m *Meter) fail(err error) error {
	m.err, m.left = err, 0
	return err
}

// Step counts n steps of work, each of about 30 ns. Step must be called before long work.
func (m *Meter) Step(n int) error {
	if m == nil {
		return nil
	}
	if m.left -= n; m.left > 0 {
		return nil
	}
	return m.look()
}

// Allow adds steps to the allowed work. Callers add steps for rows that have been read and charged.
func (m *Meter) Allow(steps int) {
	if m != nil {
		m.allowed += int64(steps)
	}
}

// Excess returns the number of steps in addition to the allowance.
func (m *Meter) Excess() int64 {
	if m == nil {
		return 0
	}
	return max(0, m.done+int64(stride-m.left)-m.allowed)
}

// Err returns the reason why the evaluation must end, or nil if it may continue.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// Exhausted reports whether the evaluation has reached its work limit or its deadline.
func (m *Meter) Exhausted() bool { return m != nil && m.exhausted }

// look determines whether the evaluation may continue.
func (m *Meter) look() error {
	m.done += int64(stride - m.left)
	m.left = stride
	if m.err != nil {
		m.left = 0
		return m.err
	}
	if m.done-m.allowed > m.limits.Steps {
		m.exhausted = true
		return m.fail(dberr.Invalidf("The statement exceeds the evaluation limit of one request (%d steps): "+
			"restrict it, or use fewer functions, joins or conditions", m.limits.Steps))
	}
	if m.ctx != nil {
		if err := m.ctx.Err(); err != nil {
			return m.fail(err)
		}
	}
	if c := m.limits.Clock; c != nil && !m.limits.Deadline.IsZero() && !c.Wall().Before(m.limits.Deadline) {
		m.exhausted = true
		return m.fail(m.late())
	}
	if m.limits.Slots != nil {
		return m.takeTurn()
	}
	return nil
}

func (m *Meter) late() error {
	if m.limits.Late != nil {
		return m.limits.Late
	}
	return context.DeadlineExceeded
}

// takeTurn acquires a slot for an evaluation that has used up its turn. If the evaluation has a slot, takeTurn yields
// the slot to another evaluation.
func (m *Meter) takeTurn() error {
	now := time.Now()
	if !m.looked.IsZero() {
		m.ran += now.Sub(m.looked)
	}
	m.looked = now
	if m.ran < turn || m.inSlot && !m.limits.Slots.Contended() {
		return nil
	}
	m.leave()
	limit := time.Duration(0)
	if c := m.limits.Clock; c != nil && !m.limits.Deadline.IsZero() {
		limit = max(m.limits.Deadline.Sub(c.Wall()), 1)
	}
	if err := m.limits.Slots.Enter(m.Context(), m.limits.Who, limit); err != nil {
		switch {
		case m.Context().Err() != nil:
			err = m.Context().Err()
		case errors.Is(err, fairshare.ErrWaiting):
			err = &dberr.Overloaded{Message: "The node is evaluating too many expressions: retry later"}
		default:
			m.exhausted, err = true, m.late()
		}
		return m.fail(err)
	}
	m.inSlot, m.looked, m.ran = true, time.Now(), 0
	return nil
}

func (m *Meter) leave() {
	if m.inSlot {
		m.limits.Slots.Leave(m.limits.Who, m.ran)
		m.inSlot, m.ran = false, 0
	}
}

// Pause must be called before the evaluation waits. Pause releases the slot. The time until the next step does not
// count as running time.
func (m *Meter) Pause() {
	if m == nil || m.looked.IsZero() {
		return
	}
	m.leave()
	m.looked = time.Time{}
}
