// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// group holds the rows that are aggregated into one row. If the statement has no GROUP BY, the group consists of all
// rows. Otherwise, the group consists of the rows of a partition that have the same clustering prefix.
type group struct {
	plan   *Plan
	bind   *expr.Bindings
	open   bool
	prefix []byte
	// probe is the prefix of the current row. It is used only if the prefix includes a function value.
	probe        []byte
	accumulators []*expr.Accumulator
	results      [][]byte
	// first holds the slots of the group's first row for columns outside aggregates. The slots refer to buf.
	first [][]byte
	buf   []byte
	// head and last are the clustering keys of the group's first and last rows. alone reports whether the last row is
	// the only row in its partition.
	head, last []byte
	alone      bool
}

func (g *group) reset() {
	clear(g.accumulators)
	clear(g.results)
	clear(g.first)
	*g = group{prefix: g.prefix[:0], probe: g.probe[:0], accumulators: g.accumulators[:0], results: g.results[:0],
		first: g.first[:0], buf: g.buf[:0], head: g.head[:0], last: g.last[:0]}
}

// begin prepares the aggregates of a plan.
func (g *group) begin(p *Plan, b *expr.Bindings) {
	g.plan, g.bind = p, b
	for _, a := range p.sel.aggregates {
		g.accumulators = append(g.accumulators, a.New())
	}
	g.results = grow(g.results, len(g.accumulators))
	g.first = grow(g.first, len(p.sel.slots))
}

// contains reports whether the current row belongs to the group.
func (g *group) contains(clustering []byte) (bool, error) {
	prefix, err := g.prefixOf(clustering)
	return bytes.Equal(prefix, g.prefix), err
}

// add adds the current row. If no group is open, add opens a group. alone reports whether the row is the only row in
// its partition.
func (g *group) add(clustering []byte, alone bool) error {
	if !g.open {
		if err := g.start(clustering); err != nil {
			return err
		}
	}
	for _, a := range g.accumulators {
		if err := a.Add(g.bind); err != nil {
			return err
		}
	}
	g.last, g.alone = append(g.last[:0], clustering...), alone
	return nil
}

// prefixOf returns the clustering prefix of the current row, followed by the value of the grouping function, if any.
// The bindings must contain the values of the row. The result is valid until the next call of prefixOf.
func (g *group) prefixOf(clustering []byte) ([]byte, error) {
	rest := clustering
	for _, c := range g.plan.table.Clustering[:g.plan.groups.prefix] {
		if len(rest) == 0 {
			break
		}
		var err error
		if rest, err = c.Type.SkipKey(rest, c.Desc); err != nil {
			return nil, dberr.Serverf("clustering key of %s.%s: %v", g.plan.table.Keyspace, g.plan.table.Name, err)
		}
	}
	prefix := clustering[:len(clustering)-len(rest)]
	if g.plan.groups.function == nil {
		return prefix, nil
	}
	v, _, err := g.plan.groups.function.Eval(g.bind)
	g.probe = cqltype.AppendValue(append(g.probe[:0], prefix...), v)
	return g.probe, err
}

func (g *group) start(clustering []byte) error {
	prefix, err := g.prefixOf(clustering)
	if err != nil {
		return err
	}
	g.open, g.prefix, g.buf = true, append(g.prefix[:0], prefix...), g.buf[:0]
	g.head = append(g.head[:0], clustering...)
	if g.buf == nil {
		g.buf = []byte{} // an empty slice represents an empty value, and nil represents null
	}
	for i, v := range g.bind.Row {
		if g.first[i] = nil; v != nil {
			n := len(g.buf)
			g.buf = append(g.buf, v...)
			g.first[i] = g.buf[n:len(g.buf):len(g.buf)]
		}
	}
	return nil
}

// close ends the group. The selectors then use the values of the first row and the results of the aggregates.
func (g *group) close() error {
	for i, a := range g.accumulators {
		var err error
		if g.results[i], err = a.Result(g.bind); err != nil {
			return err
		}
		a.Reset()
	}
	g.open = false
	g.bind.Row, g.bind.Aggregates = g.first, g.results
	return nil
}
