// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"unicode/utf8"
	"unsafe"
)

// DepthMax is the maximum nesting depth of arrays and objects in an item.
const DepthMax = 128

// SizeMax is the maximum length of an item's text, in bytes.
const SizeMax = 2 << 20

// Limits are the limits of Parse. A zero field selects DepthMax or SizeMax.
type Limits struct {
	Depth int
	Size  int // bytes of text
}

// SyntaxError reports why and where a text was rejected. Offsets are in bytes.
type SyntaxError struct {
	Offset  int
	Message string
	Fault   Fault
	// Start is the offset of the array or object around the fault, or -1. For some values of Fault, Start has another
	// meaning.
	Start int
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("The JSON is not valid at byte %d: %s.", e.Offset, e.Message)
}

// SizeError reports a text that is too long. HTTP clients receive it as status 413.
type SizeError struct{ Size, Limit int }

func (e *SizeError) Error() string {
	return fmt.Sprintf("The JSON has %d bytes, but the limit is %d.", e.Size, e.Limit)
}

// Parse checks that text is one JSON value within the limits, and returns the value. The value shares the memory of
// text, which must not change while the value is used. If duplicate members had to be removed, the value has a
// separate text. Errors are of the types *SyntaxError and *SizeError.
func Parse(text []byte, limits Limits) (Value, error) {
	if limits.Depth == 0 {
		limits.Depth = DepthMax
	}
	if limits.Size == 0 {
		limits.Size = SizeMax
	}
	if len(text) > limits.Size {
		return Value{}, &SizeError{len(text), limits.Size}
	}
	c := checker{s: text, depthMax: limits.Depth, in: -1, lone: utf8.RuneError}
	c.space()
	begin := c.i
	if err := c.value(1); err != nil {
		return Value{}, err
	}
	end := c.i
	if c.space(); c.i < len(text) {
		return Value{}, c.fail(OtherFault, "unexpected data after the value")
	}
	text = text[begin:end]
	if c.duplicates {
		text = appendUnique(make([]byte, 0, len(text)), View(text))
	}
	return View(text), nil
}

// Decoding configures Decode.
type Decoding struct {
	// Depth is the maximum nesting depth. Number is the maximum length of a number in bytes.
	Depth, Number int
	// Lone is the replacement for lone surrogates.
	Lone rune
	// Visitor receives the decoded values.
	Visitor Visitor
}

// Visitor receives the values of a text in order. If possible, strings share the memory of the text.
type Visitor interface {
	// Begin starts an array or object.
	Begin(kind Kind)
	// Name passes the name of the next member.
	Name(name string)
	// Scalar passes a value other than an array or object. text is the content of a string, or the text of the value.
	Scalar(kind Kind, text string)
	// End ends the most recently started array or object.
	End()
}

// Decode checks the JSON value at the start of a valid UTF-8 text, and passes it to a visitor. Decode returns the
// offset after the value. Errors are of the type *SyntaxError. Before an error, the visitor may have received part of
// the value. Unlike Parse, Decode accepts numbers outside the range of a double, and does not remove duplicate
// members.
func Decode(text string, d Decoding) (end int, err error) {
	c := checker{s: unsafe.Slice(unsafe.StringData(text), len(text)), in: -1, depthMax: d.Depth, numberMax: d.Number,
		lone: d.Lone, visitor: d.Visitor}
	c.space()
	err = c.value(1)
	return c.i, err
}

// appendUnique appends v without the members that later members of the same name replace. Parts of the text without
// such members remain unchanged.
func appendUnique(dst []byte, v Value) []byte {
	switch v.kind {
	case Array:
		dst = append(dst, '[')
		n := 0
		for e := range v.Elements() {
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = appendUnique(dst, e)
		}
		return append(dst, ']')
	case Object:
		places := map[string]int{}
		var keep []Member
		for name, e := range v.Members() {
			if at, ok := places[name]; ok {
				keep[at].Value = e
				continue
			}
			places[name] = len(keep)
			keep = append(keep, Member{name, e})
		}
		dst = append(dst, '{')
		for i, m := range keep {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, m.Name), ':')
			dst = appendUnique(dst, m.Value)
		}
		return append(dst, '}')
	}
	return v.Append(dst)
}
