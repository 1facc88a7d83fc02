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
)

// Decide evaluates c on the rows as they are when its turn has come, applies its mutation if all conditions hold, and tells
// done, or returns an error as Write does. Conditionals of one logical partition are evaluated in the order of their arrival; no
// write of that partition comes between the read and the write. Operands that came Unstamped are stamped in place; nothing of c is
// kept when Decide returns. It waits for its turn.
func (r *Replica) Decide(ctx context.Context, c *command.Conditional, done command.DecisionCompletion) error {
	if r.member != nil {
		return r.member.decide(ctx, c, done)
	}
	d, err := r.decide(ctx, c)
	if err != nil {
		return err
	}
	w := r.host.decisions.Get().(*decision)
	w.host, w.outcome, w.done = r.host, d, done
	// A refusal waits for the sync too: it tells what it has read, and a crash must not make that untrue.
	r.host.committer.join(w)
	return nil
}

// decision is the completion of a Decide.
type decision struct {
	host    *Host
	outcome *command.Decision
	done    command.DecisionCompletion
}

func (w *decision) Done(err error) {
	host, outcome, done := w.host, w.outcome, w.done
	*w = decision{}
	host.decisions.Put(w)
	if err != nil {
		outcome = nil
	}
	done.Decided(outcome, err)
}

// decide does all but the sync. If it succeeds the caller must join.
func (r *Replica) decide(ctx context.Context, c *command.Conditional) (*command.Decision, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	defer r.end()
	if err := r.host.committer.admit(); err != nil {
		return nil, err
	}
	m := &c.Mutation
	g, err := r.host.latches.acquire(ctx, stripeOf(m.Table, m.Token), r, m.Key, oneKey)
	if err != nil {
		r.host.committer.cancel()
		return nil, err
	}
	v, err := r.evaluate(ctx, c)
	if err == nil && v.whole != nil {
		err = r.carryOut(c, &v)
	}
	r.host.latches.leave(g)
	if err != nil {
		r.host.committer.cancel()
		return nil, err
	}
	return v.decision, nil
}

// verdict is what came of a conditional: the decision, and the mutation to apply for it to be true, nil if there is none.
type verdict struct {
	decision *command.Decision
	whole    *command.Mutation
	// result is the dedupe record to store with it.
	result []byte
}

// evaluate reads and checks, under the latch.
func (r *Replica) evaluate(ctx context.Context, c *command.Conditional) (v verdict, err error) {
	m := &c.Mutation
	if err := r.accepts(m); err != nil {
		return v, err
	}
	once := m.Dedupe != command.DedupeID{}
	if once {
		if d, err := r.repeated(m); d != nil || err != nil {
			return verdict{decision: d}, err
		}
	}
	f, units, err := r.find(ctx, c)
	if err != nil {
		return v, err
	}
	v.decision = &command.Decision{Found: f.found}
	ok, err := command.Check(c, f.found)
	switch {
	case err != nil:
	case ok:
		err = v.apply(c, once)
	case c.First != command.NoFirst:
		v.decision.First, err = r.first(ctx, c)
	}
	r.count.conditions.Add(1)
	r.count.read(units, f.rows, f.bytes)
	return v, err
}

// apply makes it the verdict of a conditional that holds. Updates are resolved Unstamped: their stamp is taken together with that of the
// other operands.
func (v *verdict) apply(c *command.Conditional, once bool) error {
	ops, err := command.Resolve(slices.Clip(c.Mutation.Ops), c, v.decision.Found, row.Unstamped)
	if err != nil {
		return err
	}
	whole := c.Mutation
	whole.Ops = ops
	v.whole = &whole
	v.decision.Applied = true
	if once {
		v.result = command.AppendDecision(nil, &command.Decision{Applied: true})
	}
	return nil
}

// find reads the rows that a conditional refers to, and says what that costs.
func (r *Replica) find(ctx context.Context, c *command.Conditional) (*finder, ru.Units, error) {
	f := &finder{refs: c.Rows, found: make([]*row.Row, len(c.Rows))}
	if len(c.Rows) > 0 {
		if err := r.host.store.Read(ctx, f.read(c), f); err != nil {
			return nil, 0, err
		}
	}
	return f, ru.Units(max(f.rows, 1))*ru.Unit + ru.Read(ru.Point, f.rows, f.bytes) - ru.Unit, nil
}

// carryOut applies the mutation of a conditional that holds.
func (r *Replica) carryOut(c *command.Conditional, v *verdict) error {
	if err := r.commit(v.whole, v.result); err != nil {
		return err
	}
	c.Mutation.Timestamp, v.decision.Timestamp = v.whole.Timestamp, v.whole.Timestamp
	r.count.wrote(ru.Write(v.whole))
	return nil
}

// repeated answers a command that was applied before, from its dedupe record.
func (r *Replica) repeated(m *command.Mutation) (*command.Decision, error) {
	result, err := r.host.store.Result(m)
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
}

// read is the command that visits the rows of a conditional.
func (f *finder) read(c *command.Conditional) *command.Read {
	q := &command.Read{Table: c.Mutation.Table, Key: c.Mutation.Key, Token: c.Mutation.Token, Now: c.Now, Dropped: c.Dropped}
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
	f.rows++
	f.bytes += int64(f.key + len(clustering) + r.Size())
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
