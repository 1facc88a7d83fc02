// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/document"
)

// How many bytes of a value are one step of work: to walk over its text for a member, to compare it, to pass it to a
// function.
const (
	pathBytes    = 256
	compareBytes = 64
	callBytes    = 32
	// structureBytes is that of arrays and objects where each element or member is looked at.
	structureBytes = 1
)

// slowCalls are the functions that work on fewer bytes in a step than callBytes. BenchmarkStep measures them.
var slowCalls = map[string]int{
	"REPLACE": 1, "REVERSE": 1, "TOSTRING": 1, "STRINGTOARRAY": 4, "STRINGTOOBJECT": 4, "STRINGSPLIT": 4,
	"STRINGJOIN": 2, "UPPER": 8, "LOWER": 8, "CONTAINS": 16, "STARTSWITH": 16, "ENDSWITH": 16, "STRINGEQUALS": 16,
	"INDEX_OF": 16, "CONTAINS_ALL_CI": 8, "CONTAINS_ANY_CI": 8, "ARRAY_LENGTH": 4, "ARRAY_CONCAT": 4,
	"ARRAY_SLICE": 4, "SETUNION": 4, "SETINTERSECT": 4, "SETDIFFERENCE": 4, "SETEQUAL": 4, "OBJECTTOARRAY": 4,
	"ARRAY_CONTAINS_ALL": 4, "ARRAY_CONTAINS_ANY": 4,
}

// stepBytesOf returns how many bytes of its arguments a function works on in one step.
func stepBytesOf(name string) int {
	if n, slow := slowCalls[name]; slow {
		return n
	}
	return callBytes
}

// keySteps is the work of making the text that equal values have in common.
func keySteps(v document.Value) int {
	if k := v.Kind(); k == document.Array || k == document.Object {
		return 4 + v.TextSize()/2
	}
	return 4 + v.TextSize()/callBytes
}

// callWork is the work of calling a function of the language, beside that on its arguments.
const callWork = 4

// numberSteps is the work of reading two numbers for arithmetic or a comparison.
const numberSteps = 3

// memberFactor is how many times the size of an object its members take in memory while they are compared.
const memberFactor = 12

// callSteps is the work of calling a user-defined function, beside that of the function.
const callSteps = 500

// The memory of computed values: of a value, and of a member of an object, in bytes.
const (
	valueBytes  = 40
	memberBytes = 56
)

// A function allocates up to allocFactor times as many bytes as its arguments have, where nothing else is counted for
// it. It is not counted for arguments of less than smallArguments bytes, which all functions of a row take together
// without asking.
const (
	allocFactor    = 2
	smallArguments = 1 << 10
)

// work counts steps, and reports whether evaluation shall go on.
func (e *env) work(steps int) bool {
	if err := e.meter.Step(steps); err != nil {
		e.fail(err)
	}
	return e.err == nil
}

// atOnceMax bounds work that cannot be interrupted, in steps.
const atOnceMax = 1 << 23

// atOnce is work for what cannot be interrupted.
func (e *env) atOnce(steps int) bool {
	if steps > atOnceMax {
		e.fail(&LimitError{"A text in the query is too long to be compared with so long a pattern; use shorter ones."})
		return false
	}
	return e.work(steps)
}

// comparing counts the work and the memory of comparing two values, before it is done.
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

// keep is alloc for what is kept beyond the row; a negative number gives memory back.
func (e *env) keep(bytes int) bool {
	if err := e.meter.Keep(bytes); err != nil {
		e.fail(err)
	}
	return e.err == nil
}

// alloc asks for memory before it is allocated, and reports whether evaluation shall go on.
func (e *env) alloc(bytes int) bool {
	if err := e.meter.Alloc(bytes); err != nil {
		e.fail(err)
	}
	return e.err == nil
}

// tooLong ends an evaluation that has made a value which is longer than an item may be.
func (e *env) tooLong() document.Value {
	if e.err != nil {
		return undefined
	}
	return e.fail(&LimitError{"A value in the query became longer than 2 MB, which is the most that an item may have; " +
		"select fewer or smaller properties."})
}

// list makes an array of a bounded size.
type list struct {
	e        *env
	elements []document.Value
	size     int
}

// add appends a value, unless it is Undefined. It returns false when evaluation has to end.
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

// array is the array, Undefined if evaluation has to end.
func (l *list) array() document.Value {
	if l.e.err != nil {
		return undefined
	}
	return document.ArrayValue(l.elements)
}
