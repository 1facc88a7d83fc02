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

// ConditionalWrite evaluates c on the current rows, and applies the mutation of c if all conditions hold. It completes
// done or returns an error, like Write. Conditional writes to one logical partition are evaluated in order of arrival.
// No other write to this partition is applied between the evaluation and the write. ConditionalWrite retains no
// reference to c.
//
// ConditionalWrite holds the latch until the entry is applied, so the next conditional write to the key sees the
// result. After it has acquired the latch, it waits for pending blind writes. If a condition does not hold,
// ConditionalWrite writes no data and reports the result after the rows have been confirmed (P10).
func (r *Replica) ConditionalWrite(ctx context.Context, c *command.Conditional, done command.Completion) error {
	if err := r.requests.begin(); err != nil {
		return err
	}
	defer r.requests.end()
	m := &c.Mutation
	if r.isMeta() || m.Table != r.Table() {
		return r.wrongRange()
	}
	if _, err := r.evaluating(); err != nil {
		return err // return before waiting
	}
	if err := r.throughput.admitWrite(m); err != nil {
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
	w := conditionalWrite{replica: r, c: c, program: program, done: done, latch: held}
	defer func() { // this also runs after a panic
		if !w.left {
			r.host.latches.leave(held)
		}
	}()
	return w.run(ctx)
}

// conditionalWrite is a conditional write in progress.
type conditionalWrite struct {
	replica *Replica
	c       *command.Conditional
	program Program // program of a transaction, or nil
	done    command.Completion
	latch   heldLatch
	// left is set when the latch has been released or will be released by an applied entry.
	left bool
}

// run evaluates the write under its latch and proposes the mutation.
func (w *conditionalWrite) run(ctx context.Context) error {
	r, c, latch, done := w.replica, w.c, w.latch, w.done
	m := &c.Mutation
	if err := latch.stripe.awaitPending(ctx, r, m.Token, m.Key); err != nil {
		return err
	}
	t := r.seq.lease()
	if t.term == 0 {
		return r.notLeader()
	}
	v, err := w.evaluate(ctx)
	if err != nil {
		return err
	}
	d := v.cas
	if v.whole == nil && !v.fromRecord && m.Retried && m.Dedupe != (command.DedupeID{}) && !c.Dry {
		if err := v.keepResult(c); err != nil {
			return err
		}
	}
	if v.whole == nil {
		if err := r.accepts(m); err != nil {
			return err // a child may have written the key before this read
		}
		table, tok := m.Table, m.Token
		w.left = true
		r.host.latches.leave(latch) // leave before done, because the caller may then reuse the key of m
		return r.refused(r.seq.confirmAsync(t, table, tok, func(err error) {
			if err != nil {
				done.Done(command.Failed(err))
				return
			}
			done.Done(command.Decided(d, r.visible.Load())) // an earlier attempt may have been applied
		}))
	}
	latch.keepKey()
	r.stamps.observe(r.host.store.StampsAbove(m.Table))
	if v.log != nil {
		if err := w.addChangeLog(&v); err != nil {
			return err
		}
	}
	applied := d.Applied
	if err := w.propose(t.term, &v); err != nil {
		return err
	}
	if applied { // d and m must not be used after done
		r.load.recordWrite(v.whole.Principal, usage.Applied, v.price, v.written, v.whole.Token)
	}
	return nil
}

// propose proposes the mutation of a conditional write whose conditions hold. The latch is released when the entry is
// applied.
func (w *conditionalWrite) propose(term uint64, v *evaluation) error {
	r, latch := w.replica, w.latch
	latch.stripe.mu.Lock()
	defer latch.stripe.mu.Unlock()
	if err := r.admits(v.whole); err != nil {
		return err
	}
	d := v.cas
	done := awaitViews(r, w.done, r.host.hintsOf(nil, v.whole))
	r.stamping.Lock()
	defer r.stamping.Unlock()
	stamp := r.stamps.next(r.host.stampTime(v.whole.Timestamp))
	if stamp, d.Timestamp = r.stamps.over(stamp, v.above); v.log != nil {
		d.Timestamp = v.stamp // operands and row images have this timestamp
	}
	entry := command.AddWriteAt(command.BeginWrite(nil, r.state.Load().epoch, 1, v.result), v.whole, stamp, d.Timestamp)
	p := &latchedProposal{replica: r, latches: []heldLatch{latch}, done: func(o raftgroup.Outcome) {
		if err := r.ended(o); err != nil {
			done.Done(command.Failed(err))
			return
		}
		done.Done(command.Decided(d, o.Index))
	}}
	w.left = true // a later panic may occur after the proposal
	if err := r.seq.propose(term, entry, p); err != nil {
		w.left = false
		return r.refused(err)
	}
	return nil
}

// evaluation is the outcome of evaluating a conditional write. It consists of the result and the mutation to apply,
// which may be nil.
type evaluation struct {
	cas   *command.CASResult
	whole *command.Mutation
	// result is the dedupe record to store with the mutation. In this record, brief replaces the result of the program.
	// fromRecord reports whether the outcome comes from a dedupe record.
	result     []byte
	brief      []byte
	fromRecord bool
	// above is the highest timestamp that whole must supersede.
	above int64
	// log describes how changes are logged. It is nil if changes are not logged. Otherwise, stamp is the timestamp of
	// the operands.
	log   *command.ChangeLog
	stamp int64
	// price is the cost of whole, and bytes is the logical size of whole.
	price   ru.Units
	written int64
}

// evaluate reads the rows and checks the conditions under the latch. For a transaction, it runs the program instead.
func (w *conditionalWrite) evaluate(ctx context.Context) (v evaluation, err error) {
	r, c := w.replica, w.c
	m := &c.Mutation
	if err := r.accepts(m); err != nil {
		return v, err
	}
	once := m.Dedupe != command.DedupeID{}
	if once {
		if d, err := dedupeResult(r.host.store, m); d != nil || err != nil {
			return evaluation{cas: d, fromRecord: true}, err
		}
		if d, err := r.host.recordMissing(ctx, c); d != nil || err != nil {
			return evaluation{cas: d, fromRecord: true}, err
		}
	}
	at := r.host.store.Pin(m.Table, m.Token, m.Key)
	defer func() {
		if bad := at.Close(); err == nil {
			err = bad
		}
	}()
	if w.program != nil {
		return w.transact(ctx, at)
	}
	f, price, err := findRows(ctx, c, at.Read)
	if err != nil {
		return v, err
	}
	v.cas, v.above = &command.CASResult{Found: f.found, Charge: int64(price)}, row.NotDeleted
	ok, err := command.Check(c, f.found)
	switch {
	case err != nil:
	case ok:
		if err = v.apply(c, once); err == nil && len(c.Conditions) > 0 {
			v.above, err = at.Newest(v.whole)
		}
	case c.First != command.NoFirst:
		var more ru.Units
		v.cas.First, more, err = firstRow(ctx, c, at.Read)
		price += more
		v.cas.Charge = int64(price)
	}
	kind := usage.Update
	if len(c.Conditions) > 0 {
		kind = usage.Condition
	}
	r.load.recordRead(m.Principal, false, kind, price, f.rows, f.bytes, m.Token, m.Key)
	if err == nil {
		err = checkMaxCharge(c, ru.Units(v.cas.Charge))
	}
	return v, err
}

// checkMaxCharge rejects a conditional write whose cost exceeds the client's limit.
func checkMaxCharge(c *command.Conditional, price ru.Units) error {
	if c.MaxCharge > 0 && int64(price) > c.MaxCharge {
		return ru.Exceeded(price, ru.Units(c.MaxCharge))
	}
	return nil
}

// apply completes the evaluation of a conditional write whose conditions hold. It resolves updates to Unstamped
// operands.
func (v *evaluation) apply(c *command.Conditional, once bool) error {
	ops, err := command.Resolve(slices.Clip(c.Mutation.Ops), c, v.cas.Found, row.Unstamped)
	if err != nil {
		return err
	}
	v.write(c, ops, once)
	v.log = c.Log
	return nil
}

// write sets the mutation of the evaluation. If once is true, the result is stored next to the rows so that a retry
// returns the same result.
func (v *evaluation) write(c *command.Conditional, ops []command.Op, once bool) {
	whole := c.Mutation
	whole.Ops = ops
	v.whole = &whole
	v.price, v.written = ru.Write(&whole)
	v.cas.Applied = true
	v.cas.Charge += int64(v.price)
	if once {
		v.result = command.AppendCASResult(nil,
			&command.CASResult{Applied: true, Charge: v.cas.Charge, Result: v.brief})
	}
}

// keptDecisionMax is the maximum size, in bytes, of a result that keepResult stores.
const keptDecisionMax = 1 << 20

// keepResult stores the result of a conditional write whose conditions do not hold. Without this record, a delayed
// earlier attempt could write rows although its client has been notified that the conditions do not hold.
func (v *evaluation) keepResult(c *command.Conditional) error {
	brief := *v.cas
	brief.Result = v.brief
	v.result = command.AppendCASResult(nil, &brief)
	if len(v.result) > keptDecisionMax {
		return ErrUncertain
	}
	whole := c.Mutation
	whole.Ops = nil
	v.whole = &whole
	return nil
}

// readFunc reads rows under a latch.
type readFunc func(ctx context.Context, q *command.Read, v command.Visitor) error

// findRows reads the rows that a conditional write refers to. It returns the cost, which is a point read for each
// existing or missing row.
func findRows(ctx context.Context, c *command.Conditional, read readFunc) (*rowCollector, ru.Units, error) {
	f := &rowCollector{refs: c.Rows, found: make([]*row.Row, len(c.Rows)), serial: len(c.Conditions) > 0}
	if len(c.Rows) > 0 {
		if err := read(ctx, f.read(c), f); err != nil {
			return nil, 0, err
		}
	}
	return f, f.price + ru.Units(int64(len(c.Rows))-f.rows)*ru.Point(0, f.serial), nil
}

// dedupeResult returns the stored result of a command from its dedupe record, or nil if no record exists.
func dedupeResult(store Store, m *command.Mutation) (*command.CASResult, error) {
	result, err := store.Dedupe(m.Table, m.Token, m.Key, m.Dedupe)
	if result == nil || err != nil {
		return nil, err
	}
	d := new(command.CASResult)
	if err := command.DecodeCASResult(d, result); err != nil {
		return nil, err
	}
	return d, nil
}

// rowCollector collects the rows that a conditional write refers to.
type rowCollector struct {
	refs        []command.RowRef
	found       []*row.Row
	key         int
	rowsAsked   bool
	rows, bytes int64
	// price is the cost of the rows found. If serial is true, the price of a serial read applies.
	price  ru.Units
	serial bool
}

// read returns the command that reads the rows of a conditional write.
func (f *rowCollector) read(c *command.Conditional) *command.Read {
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
		// This interval contains at most one row, because no full clustering key is a prefix of another clustering key.
		k := c.Rows[i].Clustering
		q.Slices = append(q.Slices, command.Slice{Start: k, End: append(k[:len(k):len(k)], 0)})
	}
	slices.SortFunc(q.Slices, func(a, b command.Slice) int { return bytes.Compare(a.Start, b.Start) })
	q.Slices = slices.CompactFunc(q.Slices, func(a, b command.Slice) bool { return bytes.Equal(a.Start, b.Start) })
	q.Limit = len(q.Slices)
	f.rowsAsked = len(q.Slices) > 0
	return q
}

func (f *rowCollector) Partition(_ token.Token, key []byte, static *row.Row) (command.Step, error) {
	f.key = len(key)
	if static != nil && static.Exists() {
		f.keep(true, nil, static)
	}
	if !f.rowsAsked {
		return command.Stop, nil
	}
	return command.More, nil
}

func (f *rowCollector) Row(clustering []byte, r *row.Row) (command.Step, error) {
	f.keep(false, clustering, r)
	return command.More, nil
}

// keep copies a row to the elements that refer to it.
func (f *rowCollector) keep(static bool, clustering []byte, r *row.Row) {
	size := int64(f.key + len(clustering) + r.Size())
	f.rows++
	f.bytes += size
	f.price += ru.Point(size, f.serial)
	var kept *row.Row
	for i := range f.refs {
		if f.refs[i].Static == static && (static || bytes.Equal(f.refs[i].Clustering, clustering)) {
			if kept == nil {
				c := r.Clone()
				kept = &c
			}
			f.found[i] = kept
		}
	}
}
