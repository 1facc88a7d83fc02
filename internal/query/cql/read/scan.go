// SPDX-License-Identifier: Apache-2.0

package read

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// scan is one execution of a plan. It visits the rows of the plan's commands and passes each row through the operators.
// Scans are pooled.
type scan struct {
	plan    *Plan
	options Options
	page    *Page
	bind    expr.Bindings
	meter   meter.Meter

	request                      request
	partitionFilters, rowFilters []filter
	cursor                       cursor
	limits                       limits
	current                      currentPartition
	slots                        rowSlots
	group                        group
	sorter                       sorter
	ann                          annSearch
	out                          resultWriter

	// full reports whether the page is full. done reports whether the LIMIT has been reached.
	full, done bool
	// err is the error of the visitor. The client receives err unchanged, even if the reader returns a different error.
	err error
}

// pooledBytesMax limits the memory that a pooled scan retains.
const pooledBytesMax = 1 << 20

// release clears the data that must not be retained between executions.
func (s *scan) release() {
	if s.slots.retained()+s.sorter.retained()+cap(s.out.json)+cap(s.group.buf) > pooledBytesMax {
		*s = scan{}
		return
	}
	if s.bind.Meter == &s.meter {
		s.meter = meter.Meter{}
	}
	if s.plan.groups.aggregated {
		s.group.reset()
	}
	if len(s.plan.order.sort) > 0 {
		s.sorter.reset()
	}
	if s.plan.ann != nil {
		s.ann.reset()
	}
	s.request.reset()
	s.cursor.reset()
	s.current.reset()
	s.slots.reset()
	s.out = resultWriter{json: s.out.json[:0]}
	s.plan, s.page, s.options, s.bind = nil, nil, Options{}, expr.Bindings{}
	s.partitionFilters, s.rowFilters, s.limits = nil, nil, limits{}
	s.full, s.done, s.err = false, false, nil
}

// Partition implements command.Visitor.
func (s *scan) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	step, err := s.visitPartition(tok, key, static)
	if err != nil {
		s.err = err
	}
	return step, err
}

// Row implements command.Visitor.
func (s *scan) Row(clustering []byte, r *row.Row) (command.Step, error) {
	step, err := s.visitRow(clustering, r)
	if err != nil {
		s.err = err
	}
	return step, err
}

// Charge implements ru.Charged.
func (s *scan) Charge(u ru.Units) {
	s.page.Charge += u
	if s.ann.walk != nil {
		s.ann.previous = math.MaxFloat32 // the next physical partition starts a new walk
	}
}

func (s *scan) visitPartition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if !s.current.continues(key) {
		if err := s.endPartition(); err != nil || s.full || s.done {
			return command.Stop, err
		}
		s.current.open, s.current.rowsSeen = true, false
		s.current.moveTo(tok, key)
		s.current.left = s.limits.perPartition
	}
	if err := s.slots.fillPartition(s.current.key, static); err != nil {
		return command.Stop, err
	}
	if ok, err := s.passes(s.partitionFilters); err != nil {
		return command.Stop, err
	} else if !ok {
		s.current.open = false
		return s.visited(command.NextPartition, nil, true), nil
	}
	if !s.plan.distinct {
		return command.More, nil
	}
	s.current.rowsSeen = true
	step, err := s.useRow(nil, true)
	return s.visited(step, nil, true), err
}

// rowSteps is the number of evaluation steps that each row adds to the allowance.
const rowSteps = 200

func (s *scan) visitRow(clustering []byte, r *row.Row) (command.Step, error) {
	s.current.rowsSeen = true
	s.page.Visited++
	if s.bind.Meter != nil {
		s.bind.Meter.Release(0)
		s.bind.Meter.Allow(rowSteps)
	}
	if err := s.slots.fillRow(clustering, r); err != nil {
		return command.Stop, err
	}
	step := command.More
	if s.ann.walk != nil {
		if step = s.ann.step(s.slots.values); step == command.Enough {
			return step, nil
		}
	}
	ok, err := s.passes(s.rowFilters)
	if err != nil {
		return command.Stop, err
	}
	if ok {
		if step, err = s.useRow(clustering, false); err != nil {
			return command.Stop, err
		}
	}
	return s.visited(step, clustering, false), nil
}

// Passed implements command.ProgressVisitor.
func (s *scan) Passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	if s.ann.walk != nil {
		return command.More, nil // an index walk does not pause
	}
	step, err := s.passed(tok, key, looked)
	if err != nil {
		s.err = err
	}
	return step, err
}

// passed pauses the read at the end of a partition without live data if the command has visited enough keys.
func (s *scan) passed(tok token.Token, key []byte, looked int) (command.Step, error) {
	if !s.cursor.visit(looked, s.options.VisitsMax) {
		return command.More, nil
	}
	if err := s.endPartition(); err != nil || s.full || s.done {
		return command.Stop, err
	}
	s.current.moveTo(tok, key)
	s.cursor.paused = true
	s.mark(nil, true)
	return command.Stop, nil
}

// visited pauses the read if the command has visited enough keys.
func (s *scan) visited(step command.Step, clustering []byte, afterPartition bool) command.Step {
	if !s.cursor.visit(1, s.options.VisitsMax) || step == command.Stop || s.ann.walk != nil {
		return step
	}
	s.cursor.paused = true
	s.mark(clustering, afterPartition || step == command.NextPartition)
	return command.Stop
}

func (s *scan) mark(clustering []byte, afterPartition bool) {
	s.cursor.mark(&s.current, clustering, afterPartition, s.limits.remaining)
}

// useRow processes a row that satisfies the filters. alone reports whether the row is the only row in its partition.
func (s *scan) useRow(clustering []byte, alone bool) (command.Step, error) {
	if err := s.applyMasks(); err != nil {
		return command.Stop, err
	}
	if s.plan.groups.aggregated {
		return s.aggregate(clustering, alone)
	}
	if s.plan.ann != nil {
		return command.More, s.ann.offer(s.slots.values)
	}
	if len(s.plan.order.sort) > 0 {
		if err := s.sorter.add(clustering); err != nil {
			return command.Stop, err
		}
	}
	if err := s.out.emit(); err != nil {
		return command.Stop, err
	}
	return s.countRow(clustering, alone), nil
}

// applyMasks sets the values of the current row for functions and aggregates. If the client must not see the stored
// values, applyMasks replaces them with masked values.
func (s *scan) applyMasks() (err error) {
	s.bind.Row = s.slots.values
	if !s.options.Clear && len(s.plan.masks) > 0 {
		s.bind.Row, err = s.slots.mask(s.plan.masks, s.bind.Meter)
	}
	return err
}

// aggregate adds a row to its group. If the row starts a new group, the previous group ends. If the page is then full,
// the row belongs to the next page.
func (s *scan) aggregate(clustering []byte, alone bool) (command.Step, error) {
	if s.plan.groups.grouped && s.group.open {
		same, err := s.group.contains(clustering)
		if err != nil {
			return command.Stop, err
		}
		if !same {
			if step, err := s.closeGroup(); step != command.More || err != nil {
				return step, err
			}
		}
	}
	if err := s.group.add(clustering, alone); err != nil {
		return command.Stop, err
	}
	return command.More, nil
}

// closeGroup emits and counts the current group. If no group exists, closeGroup emits the aggregates of an empty set.
func (s *scan) closeGroup() (command.Step, error) {
	row := s.bind.Row
	if err := s.group.close(); err != nil {
		return command.Stop, err
	}
	if s.plan.groups.grouped && len(s.plan.order.sort) > 0 {
		if err := s.sorter.add(s.group.head); err != nil {
			return command.Stop, err
		}
	}
	err := s.out.emit()
	s.bind.Row = row
	if err != nil || !s.plan.groups.grouped {
		return command.Stop, err
	}
	return s.countRow(s.group.last, s.group.alone), nil
}

// countRow counts a row or a group of the result. clustering is the clustering key of the row or of the group's last
// row.
func (s *scan) countRow(clustering []byte, alone bool) command.Step {
	s.limits.count(&s.current)
	over := alone || s.current.left == 0 || len(s.plan.table.Clustering) == 0
	switch {
	case s.limits.remaining == 0:
		s.done = true
	case s.limits.page == 0 || s.out.full():
		s.full = true
		s.mark(clustering, over)
	case over:
		return command.NextPartition
	default:
		return command.More
	}
	return command.Stop
}

// endPartition ends the current partition, if any. If the partition has only static columns, endPartition returns the
// partition as a row.
func (s *scan) endPartition() error {
	if !s.current.open {
		return nil
	}
	s.current.open, s.current.continuing = false, false
	if !s.current.rowsSeen && s.slots.staticLive && s.plan.staticRows {
		s.slots.fillNoRow()
		if _, err := s.useRow(nil, true); err != nil || s.full || s.done {
			return err
		}
	}
	if s.plan.groups.grouped && s.group.open {
		_, err := s.closeGroup()
		return err
	}
	return nil
}
