// SPDX-License-Identifier: Apache-2.0

package sql

import "github.com/ilion-db/ilion/internal/model/document"

// rows sets the slots to each combination of the inputs from i on for which WHERE holds, and calls visit. It returns
// false if visit did.
func (q *boundQuery) rows(e *env, i int, visit func() bool) bool {
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

// input sets the slot of input i to v, or to each element of it, and goes on with the next input.
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

// results calls visit with each result of a sub-query, Undefined ones included. It returns false if visit did.
func (q *boundQuery) results(e *env, visit func(document.Value) bool) bool {
	if q.plain() && q.offset == 0 && q.limit < 0 {
		return q.rows(e, 0, func() bool {
			v := q.project.eval(e)
			return e.err == nil && visit(v)
		})
	}
	c := newCollector(q, e, e.bounds, func(v document.Value) document.Value { return v })
	c.emit = visit
	q.rows(e, 0, func() bool { return c.row("", 0) })
	if e.err != nil {
		return false
	}
	return c.finish()
}

// subqueryNode is a query as an expression.
type subqueryNode struct {
	kind  SubqueryKind
	query *boundQuery
}

// arrayMax is how many elements an ARRAY sub-query makes at most.
const arrayMax = 100_000

func (n *subqueryNode) eval(e *env) document.Value {
	// A query inside one of its own rows: the slots are its own, so nothing is to be put back.
	var out []document.Value
	found := 0
	n.query.results(e, func(v document.Value) bool {
		if !v.IsDefined() {
			return true
		}
		found++
		switch n.kind {
		case Exists:
			return false
		case Array:
			if len(out) == arrayMax {
				e.fail(&LimitError{"ARRAY has made more than 100000 elements; make it smaller by WHERE or TOP."})
				return false
			}
		case Scalar:
			if found > 1 {
				e.fail(&Error{Code: codeArguments, Message: "The cardinality of a scalar subquery result set cannot be greater than one; " +
					"take ARRAY(..), or TOP 1."})
				return false
			}
		}
		out = append(out, v)
		return true
	})
	switch {
	case n.kind == Exists:
		return document.BooleanValue(found > 0)
	case n.kind == Array:
		return document.ArrayValue(out)
	case len(out) > 0:
		return out[0]
	}
	return undefined
}
