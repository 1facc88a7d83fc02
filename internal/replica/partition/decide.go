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
	d, err := r.decide(ctx, c)
	if err != nil {
		return err
	}
	w := r.host.decisions.Get().(*decision)
	w.host, w.outcome, w.done = r.host, d, done
	// A refusal waits for the sync too: it tells what it has read, and a crash must not make that untrue.
	r.seq.join(w)
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
	if err := r.seq.admit(); err != nil {
		return nil, err
	}
	m := &c.Mutation
	g, err := r.host.latches.acquire(ctx, stripeOf(r.table, m.Token), r, m.Key, oneKey)
	if err != nil {
		r.seq.cancel()
		return nil, err
	}
	d, err := r.evaluate(ctx, c)
	r.host.latches.leave(g)
	if err != nil {
		r.seq.cancel()
		return nil, err
	}
	return d, nil
}

// evaluate reads, checks and applies, under the latch.
func (r *Replica) evaluate(ctx context.Context, c *command.Conditional) (*command.Decision, error) {
	m := &c.Mutation
	if err := r.accepts(m); err != nil {
		return nil, err
	}
	once := m.Dedupe != command.DedupeID{}
	if once {
		if d, err := r.repeated(m); d != nil || err != nil {
			return d, err
		}
	}
	f, units, err := r.find(ctx, c)
	if err != nil {
		return nil, err
	}
	d := &command.Decision{Found: f.found}
	ok, err := command.Check(c, f.found)
	switch {
	case err != nil:
	case ok:
		units, err = r.carryOut(c, d, once, units)
	case c.First != command.NoFirst:
		d.First, err = r.first(ctx, c)
	}
	r.count.conditions.Add(1)
	r.count.read(units, f.rows, f.bytes)
	return d, err
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
func (r *Replica) carryOut(c *command.Conditional, d *command.Decision, once bool, units ru.Units) (ru.Units, error) {
	m := &c.Mutation
	// Updates are resolved Unstamped: the stamp is taken together with that of the other operands, in commit.
	ops, err := command.Resolve(slices.Clip(m.Ops), c, d.Found, row.Unstamped)
	if err != nil {
		return units, err
	}
	whole := *m
	whole.Ops = ops
	var result []byte
	d.Applied = true
	if once {
		result = command.AppendDecision(nil, &command.Decision{Applied: true})
	}
	if err := r.commit(&whole, result); err != nil {
		return units, err
	}
	m.Timestamp, d.Timestamp = whole.Timestamp, whole.Timestamp
	r.count.writes.Add(1)
	price, written := ru.Write(&whole)
	r.count.bytesWritten.Add(uint64(written))
	return units + price, nil
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
