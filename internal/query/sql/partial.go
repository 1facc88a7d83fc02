// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"fmt"

	"github.com/ilion-db/ilion/internal/model/document"
)

// partialMax is how long a partial result may be, in bytes: what Bounds keeps, written as JSON.
const partialMax = 256 << 20

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
	for i := range c.c.entries {
		x := &c.c.entries[i]
		rows = append(rows, document.ObjectValue(append(x.fields(), document.Member{Name: "v", Value: x.value})))
	}
	members = append(members, document.Member{Name: "r", Value: document.ArrayValue(rows)})
	return document.ObjectValue(members).Append(nil)
}

// Merge takes in what a Collector of the same query and run has collected of other items.
func (c *Collector) Merge(partial []byte) error {
	v, err := document.Parse(partial, document.Limits{Size: partialMax, Depth: 2 * document.DepthMax})
	if err != nil {
		return fmt.Errorf("partial result of a query: %w", err)
	}
	in := c.c
	for g := range v.Get("g").Elements() {
		values := unbox(g.Get("v"))
		if len(values) != len(in.q.groups) || g.Get("a").Len() != len(in.q.aggregates) {
			return fmt.Errorf("partial result of a query: a group of another query")
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
			return fmt.Errorf("partial result of a query: a row of another query")
		}
		if !in.insert(p, func() document.Value { return r.Get("v") }) {
			break
		}
	}
	return c.e.err
}
