// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/document"
)

// aggregateKind is the kind of an aggregate function. Undefined arguments are ignored.
type aggregateKind uint8

const (
	aggregateNone aggregateKind = iota
	aggregateCount
	aggregateCountIf
	aggregateSum
	aggregateAvg
	aggregateMin
	aggregateMax
	aggregateList
	aggregateSet
)

var aggregateKinds = map[string]aggregateKind{"COUNT": aggregateCount, "COUNTIF": aggregateCountIf, "SUM": aggregateSum,
	"AVG": aggregateAvg, "MIN": aggregateMin, "MAX": aggregateMax, "MAKELIST": aggregateList, "MAKESET": aggregateSet}

// aggregate is the state of an aggregate function.
type aggregate struct {
	count float64
	// sum is the sum of the numbers. lost is the accumulated rounding error. Correcting this error makes the sum less
	// dependent on the order of the additions.
	sum, lost float64
	best      document.Value
	list      []document.Value
	set       valueSet
	// undefinedResult reports whether a value made the result undefined.
	undefinedResult bool
}

// add adds a value. keep returns a copy of a value that may be retained. size is the additional memory in bytes.
func (a *aggregate) add(kind aggregateKind, v document.Value, keep func(document.Value) document.Value) (size int) {
	if !v.IsDefined() {
		return 0
	}
	switch kind {
	case aggregateCount:
		a.count++
	case aggregateCountIf:
		if v.IsTrue() {
			a.count++
		}
	case aggregateSum, aggregateAvg:
		if v.Kind() != document.Number {
			a.undefinedResult = true
			return 0
		}
		a.count++
		a.plus(v.Float())
	case aggregateMin, aggregateMax:
		if v.Kind() >= document.Array {
			a.undefinedResult = true
			return 0
		}
		c := document.Compare(v, a.best)
		if !a.best.IsDefined() || kind == aggregateMin && c < 0 || kind == aggregateMax && c > 0 {
			a.best = keep(v)
			return v.Size()
		}
	case aggregateList, aggregateSet:
		if kind == aggregateSet {
			if a.set == nil {
				a.set = valueSet{}
			}
			if a.set.has(v) {
				return 0
			}
			a.set[setKey(v)] = struct{}{}
		}
		a.list = append(a.list, keep(v))
		return 2 * v.Size()
	}
	return 0
}

// plus adds a number to the sum by Neumaier's algorithm.
func (a *aggregate) plus(f float64) {
	s := a.sum + f
	if math.Abs(a.sum) >= math.Abs(f) {
		a.lost += a.sum - s + f
	} else {
		a.lost += f - s + a.sum
	}
	a.sum = s
}

// result returns the value of the aggregate. Without values, the sum is 0, and the average, minimum, and maximum are
// undefined.
func (a *aggregate) result(kind aggregateKind) document.Value {
	if a.undefinedResult {
		return undefined
	}
	switch kind {
	case aggregateCount, aggregateCountIf:
		return document.NumberValue(a.count)
	case aggregateSum:
		return document.NumberValue(a.sum + a.lost)
	case aggregateAvg:
		return document.NumberValue((a.sum + a.lost) / a.count)
	case aggregateList, aggregateSet:
		return document.ArrayValue(a.list)
	}
	return a.best
}

// partial returns the state for merging with other aggregates.
func (a *aggregate) partial() document.Value {
	return document.ObjectValue([]document.Member{
		{Name: "n", Value: document.NumberValue(a.count)},
		{Name: "s", Value: document.NumberValue(a.sum)},
		{Name: "l", Value: document.NumberValue(a.lost)},
		{Name: "b", Value: a.best},
		{Name: "a", Value: document.ArrayValue(a.list)},
		{Name: "x", Value: document.BooleanValue(a.undefinedResult || math.IsInf(a.sum, 0) || math.IsNaN(a.sum))},
	})
}

// merge merges a partial state into the aggregate.
func (a *aggregate) merge(kind aggregateKind, p document.Value, keep func(document.Value) document.Value) (size int) {
	a.undefinedResult = a.undefinedResult || p.Get("x").IsTrue()
	switch kind {
	case aggregateMin, aggregateMax:
		return a.add(kind, p.Get("b"), keep)
	case aggregateList, aggregateSet:
		for v := range p.Get("a").Elements() {
			size += a.add(kind, v, keep)
		}
		return size
	}
	a.count += p.Get("n").Float()
	a.plus(p.Get("s").Float())
	a.plus(p.Get("l").Float())
	return 0
}
