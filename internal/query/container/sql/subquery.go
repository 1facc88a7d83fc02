// SPDX-License-Identifier: Apache-2.0

package sql

import "github.com/ilion-db/ilion/internal/model/document"

// rows sets the slots to each combination of the inputs from i onward and calls visit for each combination that
// satisfies WHERE. rows returns false if visit returns false.
func (q *boundQuery) rows(e *env, i int, visit func() bool) bool {
	mark := e.meter.Mark()
	more := q.row(e, i, visit)
	e.meter.Release(mark)
	return more
}

// row works like rows, but does not release the memory that it allocates.
func (q *boundQuery) row(e *env, i int, visit func() bool) bool {
	if i == len(q.inputs) {
		if !e.tick() {
			return false
		}
		if q.where != nil && !q.where.eval(e).IsTrue() {
			return e.err == nil
		}
		return visit()
	}
	in := &q.inputs[i]
	if in.sub != nil {
		return in.sub.results(e, func(v document.Value) bool { return q.input(e, i, v, visit) })
	}
	return q.input(e, i, in.of.eval(e), visit)
}

// input sets the slot of input i to v or to each element of v, and continues with the next input.
func (q *boundQuery) input(e *env, i int, v document.Value, visit func() bool) bool {
	in := &q.inputs[i]
	if !v.IsDefined() {
		return true
	}
	if !in.each {
		e.set(in.slot, v)
		return q.rows(e, i+1, visit)
	}
	for element := range v.Elements() {
		e.set(in.slot, element)
		if !q.rows(e, i+1, visit) {
			return false
		}
	}
	return true
}

// results calls visit with each result of a subquery, including Undefined. results returns false if visit returns
// false.
func (q *boundQuery) results(e *env, visit func(document.Value) bool) bool {
	if q.plain() && q.offset == 0 && q.limit < 0 {
		return q.rows(e, 0, func() bool {
			v := q.project.eval(e)
			return e.err == nil && visit(v)
		})
	}
	c := newCollector(q, e, e.bounds, func(v document.Value) document.Value { return v })
	defer func() { _ = e.meter.Keep(-c.size) }()
	c.emit = visit
	q.rows(e, 0, func() bool { return c.row("", 0) })
	if e.err != nil {
		return false
	}
	return c.finish()
}

// subqueryNode is a subquery that is used as an expression.
type subqueryNode struct {
	kind  SubqueryKind
	query *boundQuery
}

// arrayMax is the maximum number of elements of an ARRAY subquery.
const arrayMax = 100_000

func (n *subqueryNode) eval(e *env) document.Value {
	// The subquery has its own slots, so the state of the outer query need not be restored.
	out := list{e: e}
	kept, found, allTrue := 0, 0, true
	defer func() { _ = e.meter.Keep(-kept) }()
	n.query.results(e, func(v document.Value) bool {
		if n.kind == All {
			allTrue = v.IsTrue()
			return allTrue
		}
		if !v.IsDefined() {
			return true
		}
		found++
		switch n.kind {
		case Exists:
			return false
		case Last:
			_ = e.meter.Keep(-kept)
			out.elements, out.size, kept = out.elements[:0], 0, 0
		case Array:
			if len(out.elements) == arrayMax {
				e.fail(&LimitError{"ARRAY has more than 100000 elements. Reduce them with WHERE or TOP."})
				return false
			}
		case Scalar:
			if found > 1 {
				e.fail(&Error{Code: codeArguments, Message: "The cardinality of a scalar subquery result set cannot be greater than one; " +
					"take ARRAY(..), or TOP 1."})
				return false
			}
		}
		// The memory that a row allocates is released, except for the elements.
		before := e.meter.Mark()
		ok := out.add(v)
		size := int(e.meter.Mark()-before) + v.Size()
		kept += size
		return e.keep(size) && ok && n.kind != First
	})
	switch {
	case n.kind == Exists:
		return document.BooleanValue(found > 0)
	case n.kind == All:
		return e.unless(document.BooleanValue(allTrue))
	case n.kind == Array:
		if !e.alloc(kept) {
			return undefined
		}
		return out.array()
	case len(out.elements) > 0:
		return out.elements[0]
	}
	return undefined
}
