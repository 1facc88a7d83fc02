// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// partialMax is the maximum length of a partial result in bytes. It is the memory limit of Bounds in the form of JSON.
const partialMax = 256 << 20

// These are limits of a Part. They are the memory and the rows after which it must be merged, the additional memory
// and rows that a single item may take, and the memory of each subquery.
const (
	partBytes    = 1 << 20
	partBytesMax = 12 << 20
	partRows     = 1 << 17
	partRowsMax  = 1 << 20
)

// partSteps is the work beyond the allowance after which a Part must be merged. It is less than the limit of a replica.
const partSteps = 2_000_000

// errTicks ends a Part that evaluates too many rows.
var errTicks = &LimitError{"The query evaluates too many combinations of the elements of one item for a partial result."}

// Parts reports whether replicas may evaluate parts of the items.
func (q *Query) Parts() bool { return q.items && !q.calls && !q.Ranks() }

// Part starts the evaluation of some of a run's items. The items must be in order and follow the items of earlier
// parts. The output of its Partial method is the value of Row.Partial. The part is complete when Add returns false or
// Enough returns true. An error of Add does not imply that the query fails, because parts have lower limits than
// queries.
func (q *Query) Part(ctx context.Context, run Run) (*Collector, error) {
	run.Bounds = Bounds{Memory: partBytesMax}
	c, err := q.Collect(ctx, run)
	if err == nil {
		c.e.ticksMax = partRowsMax
	}
	return c, err
}

// Enough reports whether a Part has reached the size, the number of rows, or the work at which it must be merged.
func (c *Collector) Enough() bool {
	return c.c.size >= partBytes || c.e.ticks >= partRows || c.e.meter.Excess() >= partSteps
}

// Sorts reports whether results are in value order instead of place order.
func (q *Query) Sorts() bool { return len(q.bound.orders) > 0 }

// Groups reports whether results are computed from groups of rows, by aggregates or GROUP BY.
func (q *Query) Groups() bool { return q.bound.grouped }

// Partial returns the collected state as JSON, which another Collector of the same query can merge. It contains rows
// with their sort values, or groups with their aggregate states.
func (c *Collector) Partial() []byte {
	var members []document.Member
	if c.q.bound.grouped {
		var groups []document.Value
		for _, g := range c.c.groups {
			aggregates := make([]document.Value, len(g.aggregates))
			for i := range aggregates {
				aggregates[i] = g.aggregates[i].partial()
			}
			groups = append(groups, document.ObjectValue([]document.Member{{Name: "v", Value: box(g.values)},
				{Name: "a", Value: document.ArrayValue(aggregates)}}))
		}
		members = append(members, document.Member{Name: "g", Value: document.ArrayValue(groups)})
	}
	var rows []document.Value
	for _, x := range c.c.sorted() {
		rows = append(rows, document.ObjectValue(append(x.fields(), document.Member{Name: "v", Value: x.value})))
	}
	members = append(members, document.Member{Name: "r", Value: document.ArrayValue(rows)})
	return document.ObjectValue(members).Append(nil)
}

// Merge merges the state of another Collector, which must belong to the same query and run and have collected other
// items.
func (c *Collector) Merge(partial []byte) error {
	_, err := c.merge(partial)
	return err
}

// merge works like Merge, but also reports whether more items are needed.
func (c *Collector) merge(partial []byte) (more bool, err error) {
	v, err := document.Parse(partial, document.Limits{Size: partialMax, Depth: 2 * document.DepthMax})
	if err != nil {
		return false, fmt.Errorf("partial result of a query: %w", err)
	}
	in := c.c
	for g := range v.Get("g").Elements() {
		values := unbox(g.Get("v"))
		if len(values) != len(in.q.groups) || g.Get("a").Len() != len(in.q.aggregates) {
			return false, fmt.Errorf("partial result of a query: group belongs to another query")
		}
		in.scratch = in.scratch[:0]
		for _, x := range values {
			in.scratch = append(appendKey(in.scratch, x), 0)
		}
		to := in.groupOf(func(i int) document.Value { return values[i] })
		for i := range in.q.aggregates {
			in.grow(to.aggregates[i].merge(in.q.aggregates[i].kind, g.Get("a").Index(i), in.keep))
		}
	}
	for r := range v.Get("r").Elements() {
		p, ok := positionOf(r)
		if !ok || len(p.keys) != len(in.q.orders) {
			return false, fmt.Errorf("partial result of a query: row belongs to another query")
		}
		project := func() document.Value { return r.Get("v") }
		if in.streams() {
			more = in.streamed(p, project)
		} else {
			more = in.insert(p, project)
		}
		if !more {
			return false, c.e.err
		}
	}
	return c.e.err == nil, c.e.err
}
