// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// group is the rows that are being folded into one: all of the result, or with GROUP BY those with the same prefix of
// the clustering key in one partition.
type group struct {
	open   bool
	prefix []byte
	// probe is the prefix of the row at hand where a function is a part of it.
	probe        []byte
	accumulators []*expr.Accumulator
	results      [][]byte
	// first holds the slots of the group's first row, which columns outside aggregates show; it points into buf.
	first [][]byte
	buf   []byte
	// head and last are the clustering keys of the first and the last row; alone says that the partition of the last
	// one has no further rows.
	head, last []byte
	alone      bool
}

// released is the group's memory without its contents.
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

// fold takes a row into its group. If it is the first of another group, the group before it ends; if that fills the
// page, the row is left for the next one.
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

// prefix is the part of a clustering key that names the group, and after it the value of the function that does. It is
// called with the row's values in the bindings, and what it returns holds until the next call.
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

// closeGroup emits and counts the group at hand. With no group it emits the aggregates of no rows.
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
