// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// partialMax is how long a partial result may be, in bytes: what Bounds keeps, written as JSON.
const partialMax = 256 << 20

// The bounds of a Part: what it keeps before it has to be merged, what it may keep at most, which an item may add to
// it, and how many rows it evaluates before and at most. Sub-queries have the bound of memory each.
const (
	partBytes    = 1 << 20
	partBytesMax = 12 << 20
	partRows     = 1 << 17
	partRowsMax  = 1 << 20
)

// errTicks ends a Part that evaluates too many rows.
var errTicks = &LimitError{"The query evaluates more combinations of the elements of one item than a part of it may."}

// Parts reports whether items may be evaluated in parts, away from whoever runs the query.
func (q *Query) Parts() bool { return q.items && !q.calls }

// Part begins an evaluation of some of the items of a run, all behind those of the parts before and in their order. Its
// Partial is what Row.Partial takes. It is over when Add returns false or it has Enough. An error of Add says nothing
// of the query: it may be that of a bound which only parts have.
func (q *Query) Part(ctx context.Context, run Run) (*Collector, error) {
	run.Bounds = Bounds{Memory: partBytesMax}
	c, err := q.Collect(ctx, run)
	if err == nil {
		c.e.ticksMax = partRowsMax
	}
	return c, err
}

// Enough reports whether a Part keeps so much, or has taken so long, that it is to be merged.
func (c *Collector) Enough() bool { return c.c.size >= partBytes || c.e.ticks >= partRows }

// Sorts reports whether results are in the order of values, and not in that of places.
func (q *Query) Sorts() bool { return len(q.bound.orders) > 0 }

// Groups reports whether results are made of groups of rows: aggregates and GROUP BY.
func (q *Query) Groups() bool { return q.bound.grouped }

// Distinct reports whether each result is given once.
func (q *Query) Distinct() bool { return q.bound.distinct }

// Partial returns what has been collected, for a Collector of the same query elsewhere to merge: rows with what they
// are sorted by, or groups with what their aggregates know. It is JSON.
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

// Merge takes in what a Collector of the same query and run has collected of other items.
func (c *Collector) Merge(partial []byte) error {
	_, err := c.merge(partial)
	return err
}

// merge is Merge; it returns false when no more is needed.
func (c *Collector) merge(partial []byte) (more bool, err error) {
	v, err := document.Parse(partial, document.Limits{Size: partialMax, Depth: 2 * document.DepthMax})
	if err != nil {
		return false, fmt.Errorf("partial result of a query: %w", err)
	}
	in := c.c
	for g := range v.Get("g").Elements() {
		values := unbox(g.Get("v"))
		if len(values) != len(in.q.groups) || g.Get("a").Len() != len(in.q.aggregates) {
			return false, fmt.Errorf("partial result of a query: a group of another query")
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
			return false, fmt.Errorf("partial result of a query: a row of another query")
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
