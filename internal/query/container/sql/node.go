// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"time"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/meter"
)

// node is an expression that is bound to its inputs and parameters.
type node interface {
	eval(e *env) document.Value
}

// env is the evaluation environment of an expression. env is used by one goroutine.
type env struct {
	ctx context.Context
	// slots contains the values of inputs, groups, and aggregates. Each has a unique slot in the whole query.
	slots []document.Value
	// cursors iterate over the values in the slots. Several paths into the same input therefore scan the input's text
	// only once.
	cursors []document.Cursor
	// stack contains the arguments of active calls.
	stack     []document.Value
	vectors   [2][]float64 // buffers of VectorDistance
	analyzed  analyzed
	root      document.Value // the item
	functions Functions
	now       time.Time
	// meter counts the memory and the work of the evaluation.
	meter *meter.Meter
	err   error // the first error from a function or limit; evaluation continues, but the results are discarded
	ticks int
	// ticksMax is the maximum number of rows that may be evaluated. If it is 0, the number is not limited. bounds
	// limits subqueries.
	ticksMax int
	bounds   Bounds
}

// set assigns a value to a slot.
func (e *env) set(slot int, v document.Value) {
	e.slots[slot] = v
	e.cursors[slot].Reset(v)
}

// fail records the first error.
func (e *env) fail(err error) document.Value {
	if e.err == nil {
		e.err = err
	}
	return document.Value{}
}

// rowSteps is the work of a row in steps, without the work of its expressions.
const rowSteps = 4

// tick reports whether the evaluation may continue. tick is called for every row.
func (e *env) tick() bool {
	e.ticks++
	e.work(rowSteps)
	if e.ticksMax > 0 && e.ticks > e.ticksMax {
		e.fail(errTicks)
	}
	return e.err == nil
}

type (
	constNode struct{ value document.Value }
	rootNode  struct{}
	slotNode  struct{ slot int }
	// pathNode is a property path of an input. It is the most common expression.
	pathNode struct {
		slot  int
		names []string
	}
	memberNode struct {
		of   node
		name string
	}
	indexNode  struct{ of, at node }
	objectNode struct {
		names  []string
		values []node
	}
	arrayNode    struct{ values []node }
	ternaryNode  struct{ condition, yes, no node }
	coalesceNode struct{ x, y node }
	inNode       struct {
		x    node
		list []node
		not  bool
		set  valueSet // set of the list's values if the list is long and constant
	}
	betweenNode struct {
		x, low, high node
		not          bool
	}
	callNode struct {
		f function
		// stepBytes is the number of argument bytes that the function processes per step.
		stepBytes int
		args      []node
	}
	udfNode struct {
		name string
		args []node
	}
)

func (n constNode) eval(*env) document.Value  { return n.value }
func (n rootNode) eval(e *env) document.Value { return e.root }
func (n slotNode) eval(e *env) document.Value { return e.slots[n.slot] }

func (n *pathNode) eval(e *env) document.Value {
	e.work(1 + e.slots[n.slot].TextSize()/pathBytes)
	v := e.cursors[n.slot].Get(n.names[0])
	for _, name := range n.names[1:] {
		if !v.IsDefined() {
			break
		}
		e.work(1 + v.TextSize()/pathBytes)
		v = v.Get(name)
	}
	return v
}

func (n *memberNode) eval(e *env) document.Value {
	of := n.of.eval(e)
	e.work(1 + of.TextSize()/pathBytes)
	return of.Get(n.name)
}

func (n *indexNode) eval(e *env) document.Value {
	of, at := n.of.eval(e), n.at.eval(e)
	steps := 1 + of.TextSize()/pathBytes
	if at.Kind() == document.Number { // array elements are visited in sequence
		steps += min(2*max(int(at.Float()), 0), of.TextSize()/structureBytes)
	}
	e.work(steps)
	switch at.Kind() {
	case document.String:
		return of.Get(at.Str())
	case document.Number:
		if i := int(at.Float()); float64(i) == at.Float() {
			return of.Index(i)
		}
	}
	return document.Value{}
}

func (n *objectNode) eval(e *env) document.Value {
	if !e.work(len(n.names)) || !e.alloc(len(n.names)*(2*memberBytes+valueBytes)) {
		return undefined
	}
	members := make([]document.Member, len(n.names))
	size := 0
	for i, v := range n.values {
		members[i] = document.Member{Name: n.names[i], Value: v.eval(e)}
		if size += members[i].Value.TextSize(); size > textMax || e.err != nil {
			return e.tooLong()
		}
	}
	return document.ObjectValue(members)
}

func (n *arrayNode) eval(e *env) document.Value {
	elements := list{e: e}
	for _, x := range n.values {
		if !elements.add(x.eval(e)) {
			return undefined
		}
	}
	return elements.array()
}

func (n *ternaryNode) eval(e *env) document.Value {
	if n.condition.eval(e).IsTrue() {
		return n.yes.eval(e)
	}
	return n.no.eval(e)
}

func (n *coalesceNode) eval(e *env) document.Value {
	if v := n.x.eval(e); v.IsDefined() {
		return v
	}
	return n.y.eval(e)
}

// inSetMin is the minimum number of constants for which IN uses a set.
const inSetMin = 8

func newIn(x node, list []node, not bool) node {
	n := &inNode{x: x, list: list, not: not}
	if len(list) >= inSetMin {
		set := make(valueSet, len(list)) // The parser has omitted repeated constants.
		var key []byte
		for _, l := range list {
			c, ok := l.(constNode)
			if !ok {
				return n
			}
			set.add(&key, c.value)
		}
		// eval uses the list only if x is undefined. In this case, it reads only the first value of the list.
		n.set, n.list = set, []node{list[0]}
	}
	return n
}

// eval evaluates IN as comparisons that are combined with OR.
func (n *inNode) eval(e *env) document.Value {
	x := n.x.eval(e)
	e.work(1 + x.TextSize()/compareBytes)
	if n.set != nil && x.IsDefined() {
		if !e.alloc(x.TextSize()) {
			return undefined
		}
		return document.BooleanValue(n.set.has(x) != n.not)
	}
	out := document.BooleanValue(n.not)
	for _, y := range n.list {
		y := y.eval(e)
		if !e.comparing(x, y) {
			return undefined
		}
		switch c := equals(x, y); {
		case c.IsTrue():
			return document.BooleanValue(!n.not)
		case !c.IsDefined() && !x.IsDefined():
			return document.Value{}
		}
	}
	return out
}

func (n *betweenNode) eval(e *env) document.Value {
	x := n.x.eval(e)
	low, high := n.low.eval(e), n.high.eval(e)
	if !e.comparing(low, x) || !e.comparing(x, high) {
		return undefined
	}
	v := and(less(low, x, true), less(x, high, true))
	if n.not {
		return negate(v)
	}
	return v
}

// arguments pushes the values of args onto the stack. The caller removes them by truncating the stack to base.
func (e *env) arguments(args []node) (values []document.Value, base int) {
	base = len(e.stack)
	for _, a := range args {
		v := a.eval(e)
		e.stack = append(e.stack, v)
	}
	return e.stack[base:], base
}

func (n *callNode) eval(e *env) document.Value {
	values, base := e.arguments(n.args)
	size := 0
	for _, v := range values {
		size += v.TextSize()
	}
	v := undefined
	if e.work(callWork+size/n.stepBytes) && (size < smallArguments || e.alloc(allocFactor*size)) {
		v = n.f(e, values)
	}
	e.stack = e.stack[:base]
	return v
}

func (n *udfNode) eval(e *env) document.Value {
	if e.functions == nil {
		return e.fail(&Error{Code: codeFunction,
			Message: "User-defined functions are not available here: 'udf." + n.name + "'."})
	}
	values, base := e.arguments(n.args)
	size := 0
	for _, v := range values {
		size += v.TextSize()
	}
	if !e.work(callSteps+size/callBytes) || size > 2*textMax {
		return e.tooLong()
	}
	e.meter.Pause() // The script engine has its own slots.
	v, err := e.functions.Call(e.ctx, n.name, values)
	e.stack = e.stack[:base]
	if err != nil {
		return e.fail(err)
	}
	return v
}
