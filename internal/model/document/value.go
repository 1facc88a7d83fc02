// SPDX-License-Identifier: Apache-2.0

package document

import (
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Kind is the type of a value. Values of different kinds are ordered by kind.
type Kind uint8

// These are the kinds. Undefined is the value of a missing property, and is not a JSON value.
const (
	Undefined Kind = iota
	Null
	Boolean
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"undefined", "null", "boolean", "number", "string", "array", "object"}

// String returns JavaScript's name of the kind.
func (k Kind) String() string { return kindNames[k] }

// form is the representation of a value.
type form uint8

const (
	// plain means that the content is in num for booleans and numbers, in text for decoded strings, or in tree for
	// arrays and objects.
	plain form = iota
	// raw means that text is the JSON text of the value.
	raw
	// rawEscaped means that text is the raw form of a string with at least one escape.
	rawEscaped
)

// Value is a JSON value or Undefined. The zero Value is Undefined. A Value is immutable and may be copied.
type Value struct {
	text string
	tree *tree
	num  float64
	kind Kind
	form form
}

// tree is a computed array or object.
type tree struct {
	names    []string // names of an object's members, parallel to elements
	elements []Value
	size     int // result of TextSize
}

// Member is one property of an object.
type Member struct {
	Name  string
	Value Value
}

// NullValue is JSON's null.
var NullValue = Value{kind: Null}

// BooleanValue returns a boolean.
func BooleanValue(b bool) Value {
	v := Value{kind: Boolean}
	if b {
		v.num = 1
	}
	return v
}

// NumberValue returns a number. Numbers that JSON cannot represent (NaN and the infinities) become Undefined.
func NumberValue(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Value{}
	}
	return Value{kind: Number, num: f}
}

// IntegerValue returns a number that keeps all digits of n in its text.
func IntegerValue(n int64) Value {
	if n > -1<<53 && n < 1<<53 {
		return Value{kind: Number, num: float64(n)}
	}
	return Value{kind: Number, form: raw, text: strconv.FormatInt(n, 10)}
}

// StringValue returns a string. s must be valid UTF-8.
func StringValue(s string) Value { return Value{kind: String, text: s} }

// ArrayValue returns an array that references elements. The text of the array omits undefined elements.
func ArrayValue(elements []Value) Value {
	size := 2
	for i := range elements {
		size += elements[i].TextSize() + 1
	}
	return Value{kind: Array, tree: &tree{elements: elements, size: size}}
}

// linearNames is the maximum number of members for which names are searched without a map.
const linearNames = 16

// ObjectValue returns an object. If several members have the same name, only the last member is used. Undefined
// members are omitted.
func ObjectValue(members []Member) Value {
	t := &tree{names: make([]string, 0, len(members)), elements: make([]Value, 0, len(members)), size: 2}
	var places map[string]int
	if len(members) > linearNames {
		places = make(map[string]int, len(members))
	}
	for _, m := range members {
		if m.Value.kind == Undefined {
			continue
		}
		var i int
		if places == nil {
			i = slices.Index(t.names, m.Name)
		} else if at, ok := places[m.Name]; ok {
			i = at
		} else {
			i, places[m.Name] = -1, len(t.names)
		}
		if i >= 0 {
			t.size += m.Value.TextSize() - t.elements[i].TextSize()
			t.elements[i] = m.Value
			continue
		}
		t.names, t.elements = append(t.names, m.Name), append(t.elements, m.Value)
		t.size += len(m.Name) + 4 + m.Value.TextSize()
	}
	return Value{kind: Object, tree: t}
}

// TextSize estimates the length of the value's JSON text in bytes, without visiting its parts. Characters that require
// an escape count as one byte.
func (v Value) TextSize() int {
	switch {
	case v.tree != nil:
		return v.tree.size
	case v.form != plain:
		return len(v.text)
	case v.kind == String:
		return len(v.text) + 2
	case v.kind == Undefined:
		return 0
	case v.kind == Number:
		return 8
	}
	return 5
}

// View returns the value of a text that Parse has accepted before, such as a stored body. The text is scanned on
// demand. It must not change while the value, or a value found in it, is used. Invalid parts of the text are treated
// as Undefined.
func View(text []byte) Value {
	return viewString(viewText(text))
}

// viewText returns a string that shares the memory of b.
func viewText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// ViewText works like View, but accepts a string.
func ViewText(text string) Value { return viewString(text) }

func viewString(s string) Value {
	begin, end := skipSpace(s, 0), len(s)
	for end > begin && s[end-1] <= ' ' {
		end--
	}
	// The end of an array or object is known without a scan, because the text contains only the array or object.
	if s = s[begin:end]; len(s) >= 2 {
		switch {
		case s[0] == '{' && s[len(s)-1] == '}':
			return Value{kind: Object, form: raw, text: s}
		case s[0] == '[' && s[len(s)-1] == ']':
			return Value{kind: Array, form: raw, text: s}
		}
	}
	v, _ := valueAt(s, 0)
	return v
}

// Kind returns the kind of the value.
func (v Value) Kind() Kind { return v.kind }

// IsDefined reports whether the value is not Undefined.
func (v Value) IsDefined() bool { return v.kind != Undefined }

// IsTrue reports whether the value is the boolean true. No other value satisfies a condition.
func (v Value) IsTrue() bool { return v.kind == Boolean && v.num != 0 }

// Float returns a number as a double, or 0 if the value is not a number.
func (v Value) Float() float64 {
	if v.kind != Number {
		return 0
	}
	if v.form == plain {
		return v.num
	}
	return parseNumber(v.text)
}

// Int returns a number that is a 64-bit integer. It uses all digits of the number's text. ok is false for other
// values.
func (v Value) Int() (int64, bool) {
	if v.kind != Number {
		return 0, false
	}
	if v.form != plain {
		if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
			return n, true
		}
	}
	f := v.Float()
	if f != math.Trunc(f) || f < -1<<63 || f >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

// Clone returns a copy that does not share memory. Callers that keep the value longer than its text need such a copy.
func (v Value) Clone() Value {
	v.text = strings.Clone(v.text)
	if v.tree != nil {
		t := &tree{make([]string, len(v.tree.names)), make([]Value, len(v.tree.elements)), v.tree.size}
		for i, n := range v.tree.names {
			t.names[i] = strings.Clone(n)
		}
		for i, e := range v.tree.elements {
			t.elements[i] = e.Clone()
		}
		v.tree = t
	}
	return v
}

// Size estimates the memory in bytes of a value that does not share memory.
func (v Value) Size() int {
	n := int(unsafe.Sizeof(v)) + len(v.text)
	if v.tree != nil {
		for _, name := range v.tree.names {
			n += len(name) + 16
		}
		for _, e := range v.tree.elements {
			n += e.Size()
		}
	}
	return n
}

// Str returns the content of a string, or "" if the value is not a string. It shares the memory of the value's text.
func (v Value) Str() string {
	switch {
	case v.kind != String:
		return ""
	case v.form == plain:
		return v.text
	case v.form == raw:
		return v.text[1 : len(v.text)-1]
	default:
		return unescape(v.text[1 : len(v.text)-1])
	}
}

// Get returns a member of an object by name. If the member does not exist or the value is not an object, Get returns
// Undefined.
func (v Value) Get(name string) Value {
	if v.kind != Object {
		return Value{}
	}
	if v.form != plain {
		return memberOf(v.text, name)
	}
	for i, n := range v.tree.names {
		if n == name {
			return v.tree.elements[i]
		}
	}
	return Value{}
}

// Index returns element i of an array, counted from 0. If i is out of range or the value is not an array, Index
// returns Undefined.
func (v Value) Index(i int) Value {
	if v.kind != Array || i < 0 {
		return Value{}
	}
	if v.form == plain {
		if i < len(v.tree.elements) {
			return v.tree.elements[i]
		}
		return Value{}
	}
	for e := range v.Elements() {
		if i == 0 {
			return e
		}
		i--
	}
	return Value{}
}

// Len returns the number of elements or members. For other kinds, it returns 0.
func (v Value) Len() int {
	n := 0
	switch {
	case v.kind != Array && v.kind != Object:
	case v.form == plain:
		n = len(v.tree.elements)
	case v.kind == Array:
		for range v.Elements() {
			n++
		}
	default:
		for range v.Members() {
			n++
		}
	}
	return n
}

// Elements yields the elements of an array in order. For other kinds, it yields nothing.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.kind != Array {
			return
		}
		if v.form == plain {
			for _, e := range v.tree.elements {
				if !yield(e) {
					return
				}
			}
			return
		}
		i := skipSpace(v.text, 1)
		for i < len(v.text) && v.text[i] != ']' {
			e, end := valueAt(v.text, i)
			if !e.IsDefined() || !yield(e) {
				return
			}
			i = nextItem(v.text, end)
		}
	}
}

// Members yields the members of an object in order. For other kinds, it yields nothing. Names share the memory of the
// text.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.kind != Object {
			return
		}
		if v.form == plain {
			for i, name := range v.tree.names {
				if !yield(name, v.tree.elements[i]) {
					return
				}
			}
			return
		}
		for p := range parts(v.text) {
			if !yield(p.name(v.text), p.value) {
				return
			}
		}
	}
}
