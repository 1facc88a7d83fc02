// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"slices"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// findRows reads the rows that a conditional write refers to. For a missing row, the result contains nil.
func (e *routedRequest) findRows(ctx context.Context, u *command.Conditional) ([]*row.Row, error) {
	f := &rowCollector{refs: u.Rows}
	err := e.collect(ctx, u, f)
	return f.found, err
}

func (e *routedRequest) collect(ctx context.Context, u *command.Conditional, f *rowCollector) error {
	if len(u.Rows) == 0 {
		return nil // a read without slices would read the whole logical partition
	}
	return e.run(ctx, "Reading from", locator(&u.Mutation),
		func(ctx context.Context, t *target, p *topology.Partition) error {
			f.found = make([]*row.Row, len(u.Rows))
			q := f.query(u)
			q.Epoch, q.Peek = p.Epoch, f.peek
			return t.member.Read(ctx, q, f)
		})
}

// Find reads the rows that u refers to. The rows are used to estimate the cost of applying u. For a missing row, the
// result contains nil. The read is charged as a peek.
func (c *Coordinator) Find(ctx context.Context, u *command.Conditional) (found []*row.Row, price ru.Units, err error) {
	if err := c.admit(); err != nil {
		return nil, 0, err
	}
	defer c.leave()
	e := c.newRequest(dberr.Quorum, c.opts.ReadTimeout)
	f := &rowCollector{refs: u.Rows, peek: true}
	if err := e.collect(ctx, u, f); err != nil {
		return nil, 0, e.readError(err, false)
	}
	return f.found, f.price, nil
}

// rowCollector collects rows by their clustering keys.
type rowCollector struct {
	refs  []command.RowRef
	found []*row.Row
	peek  bool
	price ru.Units
}

// Charge implements ru.Charged.
func (f *rowCollector) Charge(u ru.Units) { f.price = u }

func (f *rowCollector) query(u *command.Conditional) *command.Read {
	m := &u.Mutation
	q := &command.Read{Table: m.Table, Key: m.Key, Token: m.Token, Now: u.Now, Dropped: u.Dropped, Level: dberr.Quorum,
		NoRows: true, Principal: m.Principal}
	if q.Key == nil {
		q.Key = []byte{}
	}
	for i := range f.refs {
		if f.refs[i].Static {
			q.Statics = true
			continue
		}
		// A full clustering key is never a prefix of another clustering key. Therefore, this interval contains at most
		// one row.
		k := f.refs[i].Clustering
		q.NoRows = false
		q.Slices = append(q.Slices, command.Slice{Start: k, End: append(k[:len(k):len(k)], 0)})
	}
	slices.SortFunc(q.Slices, func(a, b command.Slice) int { return bytes.Compare(a.Start, b.Start) })
	q.Slices = slices.CompactFunc(q.Slices, func(a, b command.Slice) bool { return bytes.Equal(a.Start, b.Start) })
	return q
}

// Partition implements command.Visitor.
func (f *rowCollector) Partition(_ token.Token, _ []byte, static *row.Row) (command.Step, error) {
	if static != nil && static.Exists() {
		f.keep(true, nil, static)
	}
	return command.More, nil
}

// Row implements command.Visitor.
func (f *rowCollector) Row(clustering []byte, r *row.Row) (command.Step, error) {
	f.keep(false, clustering, r)
	return command.More, nil
}

func (f *rowCollector) keep(static bool, clustering []byte, r *row.Row) {
	for i := range f.refs {
		if f.refs[i].Static == static && (static || bytes.Equal(f.refs[i].Clustering, clustering)) {
			f.found[i] = copyRow(r)
		}
	}
}

func copyRow(r *row.Row) *row.Row {
	out := &row.Row{Live: r.Live, Liveness: r.Liveness, Cells: slices.Clone(r.Cells)}
	for i := range out.Cells {
		out.Cells[i].Path, out.Cells[i].Value = bytes.Clone(out.Cells[i].Path), bytes.Clone(out.Cells[i].Value)
	}
	return out
}
