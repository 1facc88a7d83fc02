// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// arrayNumberFunctions contains functions that compute one value from the elements of an array. They ignore undefined
// elements.
var arrayNumberFunctions = map[string]builtin{
	"ARRAY_SUM": aggregateArray(aggregateSum),
	"ARRAY_AVG": aggregateArray(aggregateAvg),
	"ARRAY_MIN": aggregateArray(aggregateMin),
	"ARRAY_MAX": aggregateArray(aggregateMax),
	"ARRAY_MEDIAN": {f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.Array {
			return undefined
		}
		var numbers []float64
		for v := range a[0].Elements() {
			switch {
			case !v.IsDefined():
				continue
			case v.Kind() != document.Number:
				return undefined
			case len(numbers) == cap(numbers):
				more := max(4, len(numbers))
				if !e.work(more*sortSteps) || !e.alloc((len(numbers)+more)*floatBytes) {
					return undefined
				}
				numbers = slices.Grow(numbers, more)
			}
			numbers = append(numbers, v.Float())
		}
		if len(numbers) == 0 {
			return undefined
		}
		slices.Sort(numbers)
		middle := len(numbers) / 2
		if len(numbers)%2 == 1 {
			return document.NumberValue(numbers[middle])
		}
		// The numbers are halved before they are added, because the sum of two large numbers can be infinite.
		return document.NumberValue(numbers[middle-1]/2 + numbers[middle]/2)
	}, min: 1, max: 1},
}

const (
	floatBytes = 8
	// sortSteps is the work of sorting an array, in steps per element.
	sortSteps = 4
)

// aggregateArray returns a function f(array) with the value of an aggregate over the elements. The value for an empty
// array is undefined, except for the sum, which is 0.
func aggregateArray(kind aggregateKind) builtin {
	return builtin{min: 1, max: 1, f: func(e *env, a []document.Value) document.Value {
		if a[0].Kind() != document.Array {
			return undefined
		}
		var all aggregate
		n := 0
		for v := range a[0].Elements() {
			if !v.IsDefined() {
				continue
			}
			n++
			if !e.comparing(v, all.best) {
				return undefined
			}
			all.add(kind, v, func(v document.Value) document.Value { return v })
			if all.undefinedResult {
				return undefined
			}
		}
		if n == 0 && kind != aggregateSum {
			return undefined
		}
		return all.result(kind)
	}}
}
