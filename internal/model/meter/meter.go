// SPDX-License-Identifier: Apache-2.0

// Package meter bounds the evaluation of expressions: the memory that it allocates, the work that it does, and how many
// evaluations run at the same time.
//
// Guarantees: (ME1) an evaluation asks for memory before it allocates, and all evaluations of a node together hold no
// more than their Pool; (ME2) an evaluation ends soon after its context, its deadline, or the end of its allowance;
// (ME3) an evaluation that takes longer than a few milliseconds needs a slot, which it shares with others as package
// share says.
//
// A nil Meter bounds nothing, so that code which evaluates constants and tests needs none.
package meter

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/share"
)

// Pool is memory that evaluations share. It is safe for concurrent use.
type Pool struct {
	max  int64
	used atomic.Int64
}

// NewPool makes a pool of so many bytes.
func NewPool(max int64) *Pool { return &Pool{max: max} }

// Take takes bytes, or reports that fewer are left.
func (p *Pool) Take(n int64) bool {
	if p.used.Add(n) > p.max {
		p.used.Add(-n)
		return false
	}
	return true
}

// Give returns bytes.
func (p *Pool) Give(n int64) { p.used.Add(-n) }

// Used returns how many bytes are taken, Max how many there are.
func (p *Pool) Used() int64 { return p.used.Load() }

// Max returns the size of the pool.
func (p *Pool) Max() int64 { return p.max }

const (
	// free is what an evaluation may hold without asking the pool, and grain by how much its share grows.
	free, grain = 64 << 10, 256 << 10
	// stride is how many steps an evaluation does before it looks at its context and the clock: a tenth of a
	// millisecond of work.
	stride = 2048
	// turn is how long an evaluation runs without a slot, and how long with one that others wait for.
	turn = 10 * time.Millisecond
	// StepsMax is the work that an evaluation may do beyond its allowance: two seconds, or up to five where steps take
	// longest.
	StepsMax = 60_000_000
)

// Limits are the bounds of an evaluation. The zero value bounds nothing but the work.
type Limits struct {
	// Pool is what the memory is taken from; nil: there is enough.
	Pool *Pool
	// Bytes is how much memory the evaluation may hold; 0: any amount.
	Bytes int64
	// Deadline ends the evaluation with Late; Clock tells the time. A nil Clock, or a zero Deadline, is no deadline.
	Deadline time.Time
	Clock    func() time.Time
	Late     error
	// Slots bound how many evaluations run at the same time; nil: any number. Who is the claimant.
	Slots *share.Slots
	Who   share.Claimant
	// Steps replaces StepsMax if it is not 0.
	Steps int64
}

// Meter counts what one evaluation takes. It belongs to one goroutine.
type Meter struct {
	ctx    context.Context
	limits Limits

	// kept and passing are the bytes in use: those kept until they are released one by one, and those released by Mark.
	kept, passing int64
	// granted is how many bytes may be in use without asking, taken is how many of them are the pool's.
	granted, taken int64

	// left are the steps until the next look, done those before it, allowed those beyond StepsMax.
	left          int
	done, allowed int64
	// looked is when the last look was, ran the time since the last turn, in the slot if there is one.
	looked time.Time
	ran    time.Duration
	inSlot bool
	err    error
	// exhausted says that err is that of the bound of work, or of the deadline.
	exhausted bool
}

// New begins an evaluation. Close ends it.
func New(ctx context.Context, l Limits) *Meter {
	m := &Meter{}
	m.Reset(ctx, l)
	return m
}

// Reset begins an evaluation in a meter that is not in use.
func (m *Meter) Reset(ctx context.Context, l Limits) {
	if l.Steps == 0 {
		l.Steps = StepsMax
	}
	*m = Meter{ctx: ctx, limits: l, granted: free, left: stride}
	if l.Bytes > 0 {
		m.granted = min(free, l.Bytes)
	}
}

// Close returns everything that the evaluation holds.
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

// Context is the evaluation's context.
func (m *Meter) Context() context.Context {
	if m == nil || m.ctx == nil {
		return context.Background()
	}
	return m.ctx
}

// Who is the claimant.
func (m *Meter) Who() (who share.Claimant) {
	if m != nil {
		who = m.limits.Who
	}
	return who
}

// Alloc is called before n bytes are allocated. They count until Release of an earlier Mark.
func (m *Meter) Alloc(n int) error {
	if m == nil {
		return nil
	}
	if m.passing += int64(n); m.kept+m.passing <= m.granted {
		return m.err
	}
	return m.grow()
}

// Keep is called before n bytes are allocated that count until Keep of -n.
func (m *Meter) Keep(n int) error {
	if m == nil {
		return nil
	}
	if m.kept += int64(n); m.kept+m.passing <= m.granted {
		return m.err
	}
	return m.grow()
}

// Mark is a point to which Release takes the count of allocated bytes back.
func (m *Meter) Mark() int64 {
	if m == nil {
		return 0
	}
	return m.passing
}

// Release says that what was allocated since Mark is garbage.
func (m *Meter) Release(mark int64) {
	if m != nil {
		m.passing = mark
	}
}

// grow asks for more memory.
func (m *Meter) grow() error {
	if m.err != nil {
		return m.err
	}
	used := m.kept + m.passing
	if l := m.limits.Bytes; l > 0 && used > l {
		return m.fail(dberr.Invalidf("The statement makes values that take more than %d bytes at a time: select fewer or "+
			"smaller values", l))
	}
	more := max(grain, used-m.granted)
	if m.limits.Pool != nil {
		if !m.limits.Pool.Take(more) {
			return m.fail(&dberr.Overloaded{Message: "The node evaluates too many large expressions: try again later, or " +
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

// Step counts work: n steps, of which each takes about 30 ns. It is called before work that takes long.
func (m *Meter) Step(n int) error {
	if m == nil {
		return nil
	}
	if m.left -= n; m.left > 0 {
		return nil
	}
	return m.look()
}

// Allow adds to the work that may be done, for rows that were read and paid for.
func (m *Meter) Allow(steps int) {
	if m != nil {
		m.allowed += int64(steps)
	}
}

// Excess is the work that was done beyond what was allowed for, in steps.
func (m *Meter) Excess() int64 {
	if m == nil {
		return 0
	}
	return max(0, m.done+int64(stride-m.left)-m.allowed)
}

// Err is why the evaluation has to end, nil as long as it may go on.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// Exhausted reports whether the evaluation has done as much work as it may, or has come to its deadline.
func (m *Meter) Exhausted() bool { return m != nil && m.exhausted }

// Look looks at the context and the clock now.
func (m *Meter) Look() error {
	if m == nil {
		return nil
	}
	return m.look()
}

// look decides whether the evaluation may go on.
func (m *Meter) look() error {
	m.done += int64(stride - m.left)
	m.left = stride
	if m.err != nil {
		m.left = 0
		return m.err
	}
	if m.done-m.allowed > m.limits.Steps {
		m.exhausted = true
		return m.fail(dberr.Invalidf("The statement evaluates more than may be evaluated in one request (%d steps): "+
			"restrict it, or use fewer functions, joins or conditions", m.limits.Steps))
	}
	if m.ctx != nil {
		if err := m.ctx.Err(); err != nil {
			return m.fail(err)
		}
	}
	if c := m.limits.Clock; c != nil && !m.limits.Deadline.IsZero() && !c().Before(m.limits.Deadline) {
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

// takeTurn has an evaluation that has run for its turn take a slot, or let another one have it.
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
		limit = max(m.limits.Deadline.Sub(c()), 1)
	}
	if err := m.limits.Slots.Enter(m.Context(), m.limits.Who, limit); err != nil {
		switch {
		case m.Context().Err() != nil:
			err = m.Context().Err()
		case err == share.ErrWaiting:
			err = &dberr.Overloaded{Message: "Too many expressions are evaluated on this node: try again later"}
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

// Pause is called before the evaluation waits for anything: it gives its slot back, and the time until the next step
// does not count.
func (m *Meter) Pause() {
	if m == nil || m.looked.IsZero() {
		return
	}
	m.leave()
	m.looked = time.Time{}
}
