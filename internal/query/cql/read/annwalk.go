// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
)

// annExactMax is the maximum number of rows from a secondary index whose vectors are all compared. If the secondary
// index returns more rows, the scan uses the vector index.
const annExactMax = 2000

func (s *scan) beginANN(limit int64) error {
	n := s.plan.ann
	if err := s.ann.begin(n, &s.out, limit); err != nil || len(n.index.ListsOf(n.column)) > 1 {
		return err // the older lists cover all rows
	}
	return s.request.available(n.index)
}

// runANN reads the rows of a token range that are nearest to a vector. If a secondary index returns at most annExactMax
// rows, runANN examines all these rows, so the result is exact.
func (s *scan) runANN(ctx context.Context, r Reader) error {
	order, cmd := s.plan.ann, &s.request.cmd
	lists := order.index.ListsOf(order.column)
	if len(lists) > 0 && s.request.building(order.index) {
		lists = lists[len(lists)-1:] // only the last list is complete
	}
	walks := len(lists) > 0 && !lists[0].None() && order.walks
	tokens := cmd.Range
	for cmd.Index != nil || !walks {
		if err := s.read(ctx, r); err != nil {
			return err
		}
		if !s.cursor.paused {
			return s.finish(false, nil)
		}
		if walks && s.page.Visited >= annExactMax {
			break
		}
		s.resumeRange(&s.cursor.at)
		cmd.Continued = true
	}
	newest, n := lists[0], &s.ann
	n.rows, n.bytes, n.seen = n.rows[:0], 0, 0
	n.walk, n.previous = newest.NewSearch(n.target), math.MaxFloat32
	s.current.open, s.current.continuing = false, false
	s.request.index = command.IndexLookup{Index: order.index.ID, Vector: n.wire, Generation: newest.Generation,
		Nearest: n.limit}
	cmd.Index, cmd.Range, cmd.AfterKey, cmd.Continued = &s.request.index, tokens, nil, false
	cmd.AfterClustering, cmd.AfterPartition, cmd.AfterToken = nil, false, 0
	if err := s.read(ctx, r); err != nil {
		return err
	}
	return s.finish(false, nil)
}

// step decides how a vector index walk continues. The entries of a list are sorted by decreasing bound. Within a list,
// the walk can stop when enough rows have been found and no following row can be nearer than the most distant row in
// the result.
func (n *annSearch) step(values [][]byte) command.Step {
	v, ok := n.order.column.Type.Floats(n.buf[:0], values[n.order.slot])
	if n.buf = v; !ok {
		return command.More
	}
	bound := n.walk.BoundOf(v)
	further := bound > n.previous
	n.previous = bound
	if len(n.rows) == n.limit && (further || n.rows[0].similarity >= bound) {
		return command.Enough
	}
	return command.More
}
