// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/document"
)

// aggregateKind says what an aggregate does with the values of its argument. Undefined ones are not seen by any.
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

// aggregate is what an aggregate knows of the values that it has seen.
type aggregate struct {
	count float64
	// sum is of the numbers, with what was lost in rounding, so that the order of additions matters less.
	sum, lost float64
	best      document.Value
	list      []document.Value
	set       valueSet
	// spoilt says that there was a value that makes the result undefined.
	spoilt bool
}

// add takes a value in. keep makes a value one that may be kept; size is how much more memory is needed.
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
			a.spoilt = true
			return 0
		}
		a.count++
		a.plus(v.Float())
	case aggregateMin, aggregateMax:
		if v.Kind() >= document.Array {
			a.spoilt = true
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

// plus adds to the sum as Neumaier does.
func (a *aggregate) plus(f float64) {
	s := a.sum + f
	if math.Abs(a.sum) >= math.Abs(f) {
		a.lost += a.sum - s + f
	} else {
		a.lost += f - s + a.sum
	}
	a.sum = s
}

// result is the aggregate's value: the sum of nothing is 0, the average and the least of nothing are undefined.
func (a *aggregate) result(kind aggregateKind) document.Value {
	if a.spoilt {
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

// partial is what another aggregate needs to go on from this one.
func (a *aggregate) partial() document.Value {
	return document.ObjectValue([]document.Member{
		{Name: "n", Value: document.NumberValue(a.count)},
		{Name: "s", Value: document.NumberValue(a.sum)},
		{Name: "l", Value: document.NumberValue(a.lost)},
		{Name: "b", Value: a.best},
		{Name: "a", Value: document.ArrayValue(a.list)},
		{Name: "x", Value: document.BooleanValue(a.spoilt || math.IsInf(a.sum, 0) || math.IsNaN(a.sum))},
	})
}

// merge takes in what a partial has seen.
func (a *aggregate) merge(kind aggregateKind, p document.Value, keep func(document.Value) document.Value) (size int) {
	a.spoilt = a.spoilt || p.Get("x").IsTrue()
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
