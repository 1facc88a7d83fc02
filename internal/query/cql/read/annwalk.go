// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
)

// annExactMax is the number of rows found by a secondary index that are examined exactly. Beyond that the vector index
// is walked instead.
const annExactMax = 2000

// runANN reads the rows of a token range that are nearest to a vector. If a secondary index restricts the rows to at
// most annExactMax, all of them are examined and the result is exact.
func (s *scan) runANN(ctx context.Context, r Reader) error {
	lists := s.plan.ann.index.ListsOf(s.plan.ann.column)
	if len(lists) > 0 && s.building(s.plan.ann.index) {
		lists = lists[len(lists)-1:] // the last list is complete
	}
	walks := len(lists) > 0 && !lists[0].None() && s.plan.walksANN
	tokens := s.cmd.Range
	for s.cmd.Index != nil || !walks {
		if err := s.read(ctx, r); err != nil {
			return err
		}
		if !s.paused {
			return s.finish(false, nil)
		}
		if walks && s.page.Visited >= annExactMax {
			break
		}
		s.resumeRange(&s.at)
		s.cmd.Continued = true
	}
	newest, n := lists[0], &s.ann
	n.rows, n.bytes, n.seen = n.rows[:0], 0, 0
	n.search, n.previous = newest.NewSearch(n.target), math.MaxFloat32
	s.open, s.continuing = false, false
	s.index = command.IndexLookup{Index: s.plan.ann.index.ID, Vector: n.wire, Generation: newest.Generation,
		Nearest: n.limit}
	s.cmd.Index, s.cmd.Range, s.cmd.AfterKey, s.cmd.Continued = &s.index, tokens, nil, false
	s.cmd.AfterClustering, s.cmd.AfterPartition, s.cmd.AfterToken = nil, false, 0
	if err := s.read(ctx, r); err != nil {
		return err
	}
	return s.finish(false, nil)
}

// annStep returns the next step of a vector index walk. Entries of a list follow in order of decreasing bound. The walk
// can therefore stop when the limit is reached and no following row can be nearer than the worst row, unless the
// entries of a further list begin.
func (s *scan) annStep() command.Step {
	n := &s.ann
	v, ok := s.plan.ann.column.Type.Floats(n.buf[:0], s.values[s.plan.ann.slot])
	if n.buf = v; !ok {
		return command.More
	}
	bound := n.search.BoundOf(v)
	further := bound > n.previous
	n.previous = bound
	if len(n.rows) == n.limit && (further || n.rows[0].similarity >= bound) {
		return command.Enough
	}
	return command.More
}
