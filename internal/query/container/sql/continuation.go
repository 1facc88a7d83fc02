// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"encoding/base64"

	"github.com/ilion-db/ilion/internal/model/document"
)

// Continuation is the position at which the next page of a query begins.
type Continuation struct {
	query string
	position
	skip, left int64
	streams    bool
}

// Start returns the place of the first item that a source must yield, or "" for the first item of the container.
// Queries that do not stream read all items again.
func (c *Continuation) Start() string {
	if c == nil || !c.streams {
		return ""
	}
	return c.place
}

// After returns the values of the sort properties at the end of the previous page. After returns nil for the first
// page and for unsorted queries.
func (c *Continuation) After() []document.Value {
	if c == nil || c.streams || len(c.keys) == 0 {
		return nil
	}
	return c.keys
}

// boxed represents a value that may be Undefined, which JSON does not support. The result is an array with zero
// elements or one element.
func boxed(v document.Value) document.Value {
	if !v.IsDefined() {
		return document.ArrayValue(nil)
	}
	return document.ArrayValue([]document.Value{v})
}

func box(values []document.Value) document.Value {
	out := make([]document.Value, len(values))
	for i, v := range values {
		out[i] = boxed(v)
	}
	return document.ArrayValue(out)
}

func unbox(v document.Value) (out []document.Value) {
	for e := range v.Elements() {
		out = append(out, e.Index(0))
	}
	return out
}

// fields returns the JSON form of a position.
func (p *position) fields() []document.Member {
	return []document.Member{
		{Name: "k", Value: box(p.keys)},
		{Name: "p", Value: document.StringValue(base64.RawStdEncoding.EncodeToString([]byte(p.place)))},
		{Name: "r", Value: document.IntegerValue(int64(p.row))},
	}
}

func positionOf(v document.Value) (position, bool) {
	place, err := base64.RawStdEncoding.DecodeString(v.Get("p").Str())
	row, ok := v.Get("r").Int()
	return position{unbox(v.Get("k")), string(place), int(row)}, ok && err == nil && row >= 0
}

// String returns the continuation in the form that ParseContinuation parses. It consists of letters, digits, -, and _.
func (c *Continuation) String() string {
	members := append(c.fields(),
		document.Member{Name: "q", Value: document.StringValue(c.query)},
		document.Member{Name: "o", Value: document.IntegerValue(c.skip)},
		document.Member{Name: "l", Value: document.IntegerValue(c.left)},
		document.Member{Name: "s", Value: document.BooleanValue(c.streams)})
	return base64.RawURLEncoding.EncodeToString(document.ObjectValue(members).Append(nil))
}

// continuationMax is the maximum length of a continuation in bytes. It is sufficient for many partition key values and
// an ID.
const continuationMax = 4 << 20

// ParseContinuation parses the output of String. Errors are of type *Error.
func ParseContinuation(text string) (*Continuation, error) {
	bad := &Error{Code: codeArguments, Message: "The continuation is invalid."}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) > continuationMax {
		return nil, bad
	}
	v, err := document.Parse(b, document.Limits{Size: continuationMax})
	if err != nil {
		return nil, bad
	}
	p, ok := positionOf(v)
	skip, ok1 := v.Get("o").Int()
	left, ok2 := v.Get("l").Int()
	if !ok || !ok1 || !ok2 || skip < 0 || left < -1 {
		return nil, bad
	}
	return &Continuation{v.Get("q").Str(), p, skip, left, v.Get("s").IsTrue()}, nil
}
