// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Resolve turns the updates of c into operands and appends them to ops. found has the same meaning as in Check. stamp
// is the leader's timestamp, or row.Unstamped if the leader assigns it later.
//
// An update sees the found row after the earlier updates of the same statement. A counter update sees all earlier
// additions. A counter cell always gets the leader's timestamp, so additions are never reordered. Errors are of the
// type *dberr.Invalid with Cassandra's texts.
func Resolve(ops []Op, c *Conditional, found []*row.Row, stamp int64) ([]Op, error) {
	if len(c.Updates) == 0 {
		return ops, nil
	}
	r := resolver{now: c.Now}
	for n := range c.Rows {
		r.begin(stamp)
		for i := range c.Updates {
			u := &c.Updates[i]
			if u.Row < 0 || u.Row >= len(c.Rows) || u.Row >= len(found) {
				return nil, fmt.Errorf("update of row %d of %d: %w", u.Row, len(c.Rows), ErrMalformed)
			}
			if u.Row != n {
				continue
			}
			if err := r.resolve(u, found[n]); err != nil {
				return nil, err
			}
		}
		r.putCounters()
		if err := r.putSums(c.Rows[n].Clustering); err != nil {
			return nil, err
		}
		for _, b := range []*row.Builder{&r.b, &r.own} {
			if b.Empty() {
				continue
			}
			op := Op{Kind: OpRow, Clustering: c.Rows[n].Clustering, Operand: b.Append(nil)}
			if c.Rows[n].Static {
				op.Kind, op.Clustering = OpHeader, nil
			}
			ops = append(ops, op)
		}
		ops = append(ops, r.indexed...)
	}
	return ops, nil
}

// counterPath is the path of the counter cell to which this region adds. A cluster has only one region.
var counterPath = row.CounterPath(0)

// resolver turns the updates of the rows into operands, row by row.
type resolver struct {
	// b is the operand with the leader's timestamp, and own is the operand with client timestamps (see operandFor).
	b, own     row.Builder
	stamp, now int64
	// counters holds this region's totals of the counters that the row's updates change.
	counters []counter
	lists    []*listState
	// sums holds the new values of the columns that the row's updates add to. indexed holds their index entries.
	sums    []sum
	indexed []Op
}

type counter struct {
	column uint32
	total  int64
}

func (r *resolver) begin(stamp int64) {
	r.stamp = stamp
	r.b.Reset(stamp)
	r.own.Reset(stamp)
	r.counters, r.lists, r.sums, r.indexed = r.counters[:0], r.lists[:0], r.sums[:0], nil
}

func (r *resolver) resolve(u *Update, found *row.Row) error {
	var cells []row.Cell
	if found != nil {
		cells = found.Column(u.Column)
	}
	switch u.Kind {
	case CounterAdd:
		return r.add(u, cells)
	case SumAdd:
		return r.sum(u, cells)
	}
	l := r.list(u, cells)
	switch u.Kind {
	case ListSetAt:
		if len(u.Args) != 2 {
			return fmt.Errorf("list update with %d arguments: %w", len(u.Args), ErrMalformed)
		}
		path, err := l.pathAt(u, "Attempted to set an element on a list which is null")
		if err != nil {
			return err
		}
		r.set(l, u, path, u.Args[1])
	case ListDeleteAt:
		path, err := l.pathAt(u, "Attempted to delete an element from a list which is null")
		if err != nil {
			return err
		}
		r.set(l, u, path, nil)
	case ListDiscard:
		for _, path := range l.having(u.Args) {
			r.set(l, u, path, nil)
		}
	case ListPut:
		if len(u.Args)%2 != 0 {
			return fmt.Errorf("list update with %d arguments: %w", len(u.Args), ErrMalformed)
		}
		for i := 0; i < len(u.Args); i += 2 {
			r.set(l, u, u.Args[i], u.Args[i+1])
		}
	default:
		return fmt.Errorf("update kind %d: %w", u.Kind, ErrMalformed)
	}
	return nil
}

// add applies an increment to a counter. The sum wraps around, as in Cassandra.
func (r *resolver) add(u *Update, cells []row.Cell) error {
	if len(u.Args) != 1 || len(u.Args[0]) != 8 {
		return dberr.Invalidf("Invalid null value for counter increment")
	}
	i := slices.IndexFunc(r.counters, func(c counter) bool { return c.column == u.Column })
	if i < 0 {
		i = len(r.counters)
		r.counters = append(r.counters, counter{column: u.Column})
		own := slices.IndexFunc(cells, func(c row.Cell) bool { return bytes.Equal(c.Path, counterPath) })
		if own >= 0 && len(cells[own].Value) == 8 {
			r.counters[i].total = int64(binary.BigEndian.Uint64(cells[own].Value))
		}
	}
	r.counters[i].total += int64(binary.BigEndian.Uint64(u.Args[0]))
	return nil
}

func (r *resolver) putCounters() {
	for _, c := range r.counters {
		r.b.Cell(c.column, counterPath, binary.BigEndian.AppendUint64(nil, uint64(c.total)), 0, row.NoExpiry)
	}
}
