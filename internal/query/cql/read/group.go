// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// group holds the rows that are aggregated into one row: all rows of the result, or with GROUP BY the rows with the
// same clustering prefix in one partition.
type group struct {
	open   bool
	prefix []byte
	// probe is the prefix of the current row if the prefix includes a function value.
	probe        []byte
	accumulators []*expr.Accumulator
	results      [][]byte
	// first holds the slots of the group's first row for columns outside aggregates. It points into buf.
	first [][]byte
	buf   []byte
	// head and last are the clustering keys of the first and the last row. alone reports whether the last row is the
	// only row of its partition.
	head, last []byte
	alone      bool
}

// reset returns an empty group with the same buffers.
func (g *group) reset() group {
	clear(g.accumulators)
	clear(g.results)
	clear(g.first)
	return group{prefix: g.prefix[:0], probe: g.probe[:0], accumulators: g.accumulators[:0], results: g.results[:0],
		first: g.first[:0], buf: g.buf[:0], head: g.head[:0], last: g.last[:0]}
}

func (s *scan) beginGroups() {
	g := &s.group
	for _, a := range s.plan.sel.aggregates {
		g.accumulators = append(g.accumulators, a.New())
	}
	g.results = grow(g.results, len(g.accumulators))
	g.first = grow(g.first, len(s.values))
}

// aggregate adds a row to its group. If the row starts a new group, the previous group ends. If that fills the page,
// the row is left for the next page.
func (s *scan) aggregate(clustering []byte, alone bool) (command.Step, error) {
	g := &s.group
	if s.plan.grouped && g.open {
		prefix, err := s.prefix(clustering)
		if err != nil {
			return command.Stop, err
		}
		if !bytes.Equal(prefix, g.prefix) {
			if step, err := s.closeGroup(); step != command.More || err != nil {
				return step, err
			}
		}
	}
	if !g.open {
		if err := s.openGroup(clustering); err != nil {
			return command.Stop, err
		}
	}
	for _, a := range g.accumulators {
		if err := a.Add(&s.bind); err != nil {
			return command.Stop, err
		}
	}
	g.last, g.alone = append(g.last[:0], clustering...), alone
	return command.More, nil
}

// prefix returns the clustering prefix of the group, followed by the value of the grouping function if there is one.
// The row's values must be in the bindings. The result is valid until the next call.
func (s *scan) prefix(clustering []byte) ([]byte, error) {
	rest := clustering
	for _, c := range s.plan.table.Clustering[:s.plan.groupPrefix] {
		if len(rest) == 0 {
			break
		}
		var err error
		if rest, err = c.Type.SkipKey(rest, c.Desc); err != nil {
			return nil, dberr.Serverf("clustering key of %s.%s: %v", s.plan.table.Keyspace, s.plan.table.Name, err)
		}
	}
	prefix := clustering[:len(clustering)-len(rest)]
	if s.plan.groupBy == nil {
		return prefix, nil
	}
	v, _, err := s.plan.groupBy.Eval(&s.bind)
	s.group.probe = cqltype.AppendValue(append(s.group.probe[:0], prefix...), v)
	return s.group.probe, err
}

func (s *scan) openGroup(clustering []byte) error {
	g := &s.group
	prefix, err := s.prefix(clustering)
	if err != nil {
		return err
	}
	g.open, g.prefix, g.buf = true, append(g.prefix[:0], prefix...), g.buf[:0]
	g.head = append(g.head[:0], clustering...)
	for i, v := range s.bind.Row {
		if g.first[i] = nil; v != nil {
			n := len(g.buf)
			g.buf = append(g.buf, v...)
			g.first[i] = g.buf[n:len(g.buf):len(g.buf)]
		}
	}
	return nil
}

// closeGroup emits and counts the current group. Without a group it emits the aggregates of an empty set.
func (s *scan) closeGroup() (command.Step, error) {
	g := &s.group
	for i, a := range g.accumulators {
		var err error
		if g.results[i], err = a.Result(&s.bind); err != nil {
			return command.Stop, err
		}
		a.Reset()
	}
	g.open = false
	row := s.bind.Row
	s.bind.Row, s.bind.Aggregates = g.first, g.results
	if s.plan.grouped && len(s.plan.sort) > 0 {
		if err := s.noteSorted(g.head); err != nil {
			return command.Stop, err
		}
	}
	err := s.emit()
	s.bind.Row = row
	if err != nil || !s.plan.grouped {
		return command.Stop, err
	}
	return s.countRow(g.last, g.alone), nil
}
