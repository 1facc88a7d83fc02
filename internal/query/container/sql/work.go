// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// These are numbers of bytes of a value that are processed per step of work. The work consists of scanning the text
// for a member, comparing the value, or passing it to a function.
const (
	pathBytes    = 256
	compareBytes = 64
	callBytes    = 32
	// structureBytes applies to arrays and objects if each element or member is examined.
	structureBytes = 1
)

// slowCalls contains the functions that process fewer bytes per step than callBytes, as measured by BenchmarkStep.
var slowCalls = map[string]int{
	"REPLACE": 1, "REVERSE": 1, "TOSTRING": 1, "STRINGTOARRAY": 4, "STRINGTOOBJECT": 4, "STRINGSPLIT": 4,
	"STRINGJOIN": 2, "UPPER": 8, "LOWER": 8, "CONTAINS": 16, "STARTSWITH": 16, "ENDSWITH": 16, "STRINGEQUALS": 16,
	"INDEX_OF": 16, "CONTAINS_ALL_CI": 8, "CONTAINS_ANY_CI": 8, "ARRAY_LENGTH": 4, "ARRAY_CONCAT": 4,
	"ARRAY_SLICE": 4, "SETUNION": 4, "SETINTERSECT": 4, "SETDIFFERENCE": 4, "SETEQUAL": 4, "OBJECTTOARRAY": 4,
	"ARRAY_CONTAINS_ALL": 4, "ARRAY_CONTAINS_ANY": 4, "ARRAY_SUM": 4, "ARRAY_AVG": 4, "ARRAY_MIN": 4, "ARRAY_MAX": 4,
	"ARRAY_MEDIAN": 4, "LASTINDEXOF": 16, "SUBSTRINGBEFORE": 16, "SUBSTRINGAFTER": 16, "LASTSUBSTRINGBEFORE": 16,
	"LASTSUBSTRINGAFTER": 16, vectorDistanceName: 4,
}

// stepBytesOf returns the number of argument bytes that a function processes per step.
func stepBytesOf(name string) int {
	if n, slow := slowCalls[name]; slow {
		return n
	}
	return callBytes
}

// keySteps returns the work of computing a value's canonical text.
func keySteps(v document.Value) int {
	if k := v.Kind(); k == document.Array || k == document.Object {
		return 4 + v.TextSize()/2
	}
	return 4 + v.TextSize()/callBytes
}

// callWork is the work of calling a built-in function in steps, without the work for its arguments.
const callWork = 4

// numberSteps is the work of reading two numbers for arithmetic or a comparison.
const numberSteps = 3

// memberFactor is the ratio of the memory of an object's members during a comparison to the size of the object.
const memberFactor = 12

// callSteps is the work of calling a user-defined function, without the work of the function itself.
const callSteps = 500

// These are the sizes in memory, in bytes, of a computed value and of a member of a computed object.
const (
	valueBytes  = 40
	memberBytes = 56
)

// A function may allocate up to allocFactor times the size of its arguments if its memory is not counted otherwise.
// Arguments smaller than smallArguments bytes are not counted. All functions of a row share this allowance.
const (
	allocFactor    = 2
	smallArguments = 1 << 10
)

// work counts steps and reports whether the evaluation may continue.
func (e *env) work(steps int) bool {
	if err := e.meter.Step(steps); err != nil {
		e.fail(err)
	}
	return e.err == nil
}

// atOnceMax is the maximum number of steps of uninterruptible work.
const atOnceMax = 1 << 23

// atOnce works like work for uninterruptible work.
func (e *env) atOnce(steps int) bool {
	if steps > atOnceMax {
		e.fail(&LimitError{"A text and a pattern in the query are too long to be compared. Use shorter ones."})
		return false
	}
	return e.work(steps)
}

// comparing counts the work and the memory of a comparison in advance.
func (e *env) comparing(x, y document.Value) bool {
	if x.Kind() != y.Kind() {
		return e.work(1)
	}
	switch x.Kind() {
	case document.String:
		return e.work(1 + min(x.TextSize(), y.TextSize())/compareBytes)
	case document.Array, document.Object:
		size := x.TextSize() + y.TextSize()
		mark := e.meter.Mark()
		ok := e.work(2+size/structureBytes) && e.alloc(memberFactor*size)
		e.meter.Release(mark)
		return ok
	case document.Number:
		return e.work(numberSteps)
	}
	return e.work(1)
}

// keep works like alloc for memory that is kept beyond the row. A negative number releases memory.
func (e *env) keep(bytes int) bool {
	if err := e.meter.Keep(bytes); err != nil {
		e.fail(err)
	}
	return e.err == nil
}

// alloc reserves memory before it is allocated and reports whether the evaluation may continue.
func (e *env) alloc(bytes int) bool {
	if err := e.meter.Alloc(bytes); err != nil {
		e.fail(err)
	}
	return e.err == nil
}

// tooLong ends an evaluation that has computed a value larger than the maximum size of an item.
func (e *env) tooLong() document.Value {
	if e.err != nil {
		return undefined
	}
	return e.fail(&LimitError{"A value in the query exceeds 2 MB, the maximum size of an item. " +
		"Select fewer or smaller properties."})
}

// list is an array of limited size.
type list struct {
	e        *env
	elements []document.Value
	size     int
}

// add appends a value unless it is Undefined. add returns false if the evaluation must end.
func (l *list) add(v document.Value) bool {
	if l.e.err != nil {
		return false
	}
	if !v.IsDefined() {
		return true
	}
	if !l.e.work(1) {
		return false
	}
	if l.size += v.TextSize() + 1; l.size > textMax {
		l.e.tooLong()
		return false
	}
	if n := len(l.elements); n == cap(l.elements) {
		more := max(4, n)
		if !l.e.work(more) || !l.e.alloc((n+more)*valueBytes) {
			return false
		}
		l.elements = slices.Grow(l.elements, more)
	}
	l.elements = append(l.elements, v)
	return true
}

// addAll appends the elements of an array.
func (l *list) addAll(array document.Value) bool {
	for v := range array.Elements() {
		if !l.add(v) {
			return false
		}
	}
	return true
}

// array returns the array, or Undefined if the evaluation must end.
func (l *list) array() document.Value {
	if l.e.err != nil {
		return undefined
	}
	return document.ArrayValue(l.elements)
}
