// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Decide evaluates c on the rows as they are when its turn has come, applies its mutation if all conditions hold, and
// tells done, or returns an error as Write does. Conditionals of one logical partition are evaluated in the order of
// their arrival; no write of that partition comes between the read and the write. Nothing of c is kept when Decide
// returns. It waits for its turn.
//
// The latch is held until the entry is applied, so the next conditional of the key sees it, and is taken before the
// blind writes in front of it are applied, so it waits for those. A condition that fails writes nothing: it is told
// when what it has read is confirmed (P10).
func (r *Replica) Decide(ctx context.Context, c *command.Conditional, done command.DecisionCompletion) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	m := &c.Mutation
	if r.isMeta() || m.Table != r.Table() {
		return r.wrongRange()
	}
	if _, err := r.evaluating(); err != nil {
		return err // before it queues in vain
	}
	if err := r.affords(m); err != nil {
		return err
	}
	program, err := r.host.program(ctx, c)
	if err != nil {
		return err
	}
	held, err := r.host.latches.acquire(ctx, stripeOf(m.Table, m.Token), r, m.Key, oneKey)
	if err != nil {
		return err
	}
	left := false
	defer func() { // also when the program panics
		if !left {
			r.host.latches.leave(held)
		}
	}()
	return r.judge(ctx, c, program, held, &left, done)
}

// judge evaluates under the latch. It sets left once the latch is taken care of: if there is an entry, that leaves it
// when it is applied.
func (r *Replica) judge(
	ctx context.Context, c *command.Conditional, p Program, latch guard, left *bool, done command.DecisionCompletion,
) error {
	m := &c.Mutation
	if err := latch.stripe.awaitLanding(ctx, r, m.Token, m.Key); err != nil {
		return err
	}
	t := r.seq.hold()
	if t.term == 0 {
		return r.notLeader()
	}
	v, err := r.evaluate(ctx, c, p)
	if err != nil {
		return err
	}
	d := v.decision
	if v.whole == nil && !v.told && m.Retried && m.Dedupe != (command.DedupeID{}) && !c.Dry {
		if err := v.keep(c); err != nil {
			return err
		}
	}
	if v.whole == nil {
		if err := r.accepts(m); err != nil {
			return err // the key went to a child, and may have been written there before it was read here
		}
		table, tok := m.Table, m.Token
		*left = true
		r.host.latches.leave(latch) // it names m's key, which is the caller's again when done is told
		return r.refused(r.seq.confirmed(t, table, tok, func(err error) {
			if err != nil {
				done.Decided(nil, err)
				return
			}
			tellIndex(done, r.shown.Load()) // it may have been applied before
			done.Decided(d, nil)
		}))
	}
	latch.keepKey()
	if v.log != nil {
		if err := r.logged(&v, c); err != nil {
			return err
		}
	}
	applied := d.Applied
	if err := r.conclude(t.term, &v, latch, left, done); err != nil {
		return err
	}
	if applied { // done may have been told: neither d nor m is looked at again
		r.wrote(v.whole.Principal, usage.Applied, v.price, v.written, v.whole.Token)
	}
	return nil
}

// conclude proposes the mutation of a conditional that holds. Its entry leaves the latch, as left says then.
func (r *Replica) conclude(term uint64, v *verdict, latch guard, left *bool, done command.DecisionCompletion) error {
	latch.stripe.mu.Lock()
	defer latch.stripe.mu.Unlock()
	if err := r.admits(v.whole); err != nil {
		return err
	}
	d := v.decision
	done = r.followsDecision(done, v.whole)
	r.stamping.Lock()
	defer r.stamping.Unlock()
	stamp := r.stamps.next(r.host.stampTime(v.whole.Timestamp))
	if stamp, d.Timestamp = r.stamps.over(stamp, v.above); v.log != nil {
		d.Timestamp = v.stamp // its operands have it, and the images of rows, too
	}
	entry := command.AddWriteAt(command.BeginWrite(nil, r.epoch(), 1, v.result), v.whole, stamp, d.Timestamp)
	w := &held{replica: r, guards: []guard{latch}, then: func(o raftgroup.Outcome) { r.decided(done, d, o) }}
	*left = true // what panics from here on may have proposed it
	if err := r.seq.propose(term, entry, w); err != nil {
		*left = false
		return r.refused(err)
	}
	return nil
}

// decided tells how the entry of a conditional ended.
func (r *Replica) decided(done command.DecisionCompletion, d *command.Decision, o raftgroup.Outcome) {
	if err := r.ended(o); err != nil {
		done.Decided(nil, err)
		return
	}
	tellIndex(done, o.Index)
	done.Decided(d, nil)
}

// verdict is what came of a conditional: the decision, and the mutation to apply for it to be true, nil if there is
// none.
type verdict struct {
	decision *command.Decision
	whole    *command.Mutation
	// result is the dedupe record to store with it, which has brief in the place of the decision's result; told says
	// that the decision is from such a record.
	result []byte
	brief  []byte
	told   bool
	// above is the highest timestamp of what whole is written over, if it is to be seen.
	above int64
	// log says how the changes are logged, nil if they are not; then stamp is that of the operands.
	log   *command.ChangeLog
	stamp int64
	// price is what whole costs, of so many logical bytes.
	price   ru.Units
	written int64
}

// evaluate reads and checks, under the latch; p is the program of a transaction.
func (r *Replica) evaluate(ctx context.Context, c *command.Conditional, p Program) (v verdict, err error) {
	m := &c.Mutation
	if err := r.accepts(m); err != nil {
		return v, err
	}
	once := m.Dedupe != command.DedupeID{}
	if once {
		if d, err := r.repeated(m); d != nil || err != nil {
			return verdict{decision: d, told: true}, err
		}
		if d, err := r.late(ctx, c); d != nil || err != nil {
			return verdict{decision: d, told: true}, err
		}
	}
	at := r.host.store.Pin(m.Table, m.Token, m.Key)
	defer func() {
		if bad := at.Close(); err == nil {
			err = bad
		}
	}()
	if p != nil {
		return r.transact(ctx, c, p, at)
	}
	f, price, err := r.find(ctx, c, at.Read)
	if err != nil {
		return v, err
	}
	v.decision, v.above = &command.Decision{Found: f.found, Charge: int64(price)}, row.NotDeleted
	ok, err := command.Check(c, f.found)
	switch {
	case err != nil:
	case ok:
		if err = v.apply(c, once); err == nil && len(c.Conditions) > 0 {
			v.above, err = at.Newest(v.whole)
		}
	case c.First != command.NoFirst:
		var more ru.Units
		v.decision.First, more, err = r.first(ctx, c, at.Read)
		price += more
		v.decision.Charge = int64(price)
	}
	kind := usage.Update
	if len(c.Conditions) > 0 {
		kind = usage.Condition
	}
	r.hasRead(m.Principal, false, kind, price, f.rows, f.bytes, m.Token, m.Key)
	if err == nil {
		err = within(c, ru.Units(v.decision.Charge))
	}
	return v, err
}

// within refuses a conditional that costs so much, if its client does not allow it.
func within(c *command.Conditional, price ru.Units) error {
	if c.MaxCharge > 0 && int64(price) > c.MaxCharge {
		return ru.Exceeded(price, ru.Units(c.MaxCharge))
	}
	return nil
}

// apply makes it the verdict of a conditional that holds. Updates are resolved Unstamped: their stamp is taken together
// with that of the other operands.
func (v *verdict) apply(c *command.Conditional, once bool) error {
	ops, err := command.Resolve(slices.Clip(c.Mutation.Ops), c, v.decision.Found, row.Unstamped)
	if err != nil {
		return err
	}
	v.write(c, ops, once)
	v.log = c.Log
	return nil
}

// write makes operands the mutation of the verdict; once keeps what is told beside the rows, to be told again.
func (v *verdict) write(c *command.Conditional, ops []command.Op, once bool) {
	whole := c.Mutation
	whole.Ops = ops
	v.whole = &whole
	v.price, v.written = ru.Write(&whole)
	v.decision.Applied = true
	v.decision.Charge += int64(v.price)
	if once {
		v.result = command.AppendDecision(nil,
			&command.Decision{Applied: true, Charge: v.decision.Charge, Result: v.brief})
	}
}

// keptDecisionMax bounds what keep keeps, in bytes: a decision that writes nothing may show rows.
const keptDecisionMax = 1 << 20

// keep has a decision that writes nothing kept beside the rows. An earlier attempt may be on its way still: it would be
// evaluated anew when it comes, on other rows, and might write what its client was told not to be written.
func (v *verdict) keep(c *command.Conditional) error {
	brief := *v.decision
	brief.Result = v.brief
	v.result = command.AppendDecision(nil, &brief)
	if len(v.result) > keptDecisionMax {
		return ErrUncertain
	}
	whole := c.Mutation
	whole.Ops = nil
	v.whole = &whole
	return nil
}

// reading is how rows are read under a latch.
type reading func(ctx context.Context, q *command.Read, v command.Visitor) error

// find reads the rows that a conditional refers to, and says what that costs: a point read for each, there or not.
func (r *Replica) find(ctx context.Context, c *command.Conditional, read reading) (*finder, ru.Units, error) {
	f := &finder{refs: c.Rows, found: make([]*row.Row, len(c.Rows)), serial: len(c.Conditions) > 0}
	if len(c.Rows) > 0 {
		if err := read(ctx, f.read(c), f); err != nil {
			return nil, 0, err
		}
	}
	return f, f.price + ru.Units(int64(len(c.Rows))-f.rows)*ru.Point(0, f.serial), nil
}

// repeated answers a command that was applied before, from its dedupe record.
func (r *Replica) repeated(m *command.Mutation) (*command.Decision, error) {
	result, err := r.host.store.Dedupe(m.Table, m.Token, m.Key, m.Dedupe)
	if result == nil || err != nil {
		return nil, err
	}
	d := new(command.Decision)
	if err := command.DecodeDecision(d, result); err != nil {
		return nil, err
	}
	return d, nil
}

// finder collects the rows that a conditional refers to.
type finder struct {
	refs        []command.RowRef
	found       []*row.Row
	key         int
	rowsAsked   bool
	rows, bytes int64
	// price is that of the rows that were found, for conditions if serial is set.
	price  ru.Units
	serial bool
}

// read is the command that visits the rows of a conditional.
func (f *finder) read(c *command.Conditional) *command.Read {
	m := &c.Mutation
	q := &command.Read{Table: m.Table, Key: m.Key, Token: m.Token, Now: c.Now, Dropped: c.Dropped}
	if q.Key == nil {
		q.Key = []byte{}
	}
	for i := range c.Rows {
		if c.Rows[i].Static {
			q.Statics = true
			continue
		}
		// No full clustering key is the beginning of another one, so this interval holds one row at most.
		k := c.Rows[i].Clustering
		q.Slices = append(q.Slices, command.Slice{Start: k, End: append(k[:len(k):len(k)], 0)})
	}
	slices.SortFunc(q.Slices, func(a, b command.Slice) int { return bytes.Compare(a.Start, b.Start) })
	q.Slices = slices.CompactFunc(q.Slices, func(a, b command.Slice) bool { return bytes.Equal(a.Start, b.Start) })
	q.Limit = len(q.Slices)
	f.rowsAsked = len(q.Slices) > 0
	return q
}

func (f *finder) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	f.key = len(key)
	if static != nil && static.Exists() {
		f.keep(true, nil, static)
	}
	if !f.rowsAsked {
		return command.Stop, nil
	}
	return command.More, nil
}

func (f *finder) Row(clustering []byte, r *row.Row) (command.Step, error) {
	f.keep(false, clustering, r)
	return command.More, nil
}

// keep copies a row to the places that refer to it.
func (f *finder) keep(static bool, clustering []byte, r *row.Row) {
	size := int64(f.key + len(clustering) + r.Size())
	f.rows++
	f.bytes += size
	f.price += ru.Point(size, f.serial)
	var kept *row.Row
	for i := range f.refs {
		if f.refs[i].Static == static && (static || bytes.Equal(f.refs[i].Clustering, clustering)) {
			if kept == nil {
				kept = clone(r)
			}
			f.found[i] = kept
		}
	}
}

// clone copies a row and what it points to.
func clone(r *row.Row) *row.Row {
	size := 0
	for i := range r.Cells {
		size += len(r.Cells[i].Path) + len(r.Cells[i].Value)
	}
	out := &row.Row{Live: r.Live, Liveness: r.Liveness, Cells: slices.Clone(r.Cells)}
	buf := make([]byte, 0, size)
	hold := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		n := len(buf)
		buf = append(buf, b...)
		return buf[n:len(buf):len(buf)]
	}
	for i := range out.Cells {
		out.Cells[i].Path, out.Cells[i].Value = hold(out.Cells[i].Path), hold(out.Cells[i].Value)
	}
	return out
}
