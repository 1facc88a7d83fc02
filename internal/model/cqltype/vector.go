// SPDX-License-Identifier: Apache-2.0

package cqltype

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// VectorOf returns vector<elem, dimension>, which is a sequence of non-null elements. A vector is a single value, so
// its elements are frozen. The dimension is at least 1.
func VectorOf(elem *Type, dimension int) *Type {
	return &Type{Kind: Vector, Elems: []*Type{elem.Freeze()}, Dimension: dimension}
}

// fixedWidth returns the length, in bytes, of every value of a fixed-length type, or 0 for other types. Like
// Cassandra, it treats the narrow integers, date, and time as variable-length.
func (t *Type) fixedWidth() int {
	switch t.Kind {
	case Boolean:
		return 1
	case Int, Float:
		return 4
	case Bigint, Double, Timestamp:
		return 8
	case UUID, Timeuuid:
		return 16
	case Vector:
		if w := t.Elems[0].fixedWidth(); w <= math.MaxInt32/t.Dimension {
			return w * t.Dimension
		}
	}
	return 0
}

// These are the special values of cursor.lengths. A positive number is the length of every value.
const (
	lengths32   = 0  // a 32-bit length before each value
	lengthsVint = -1 // an unsigned vint before each value
)

// elements returns a cursor over a vector. Elements with a fixed width are concatenated. Each other element is
// preceded by its length.
func (t *Type) elements(wire []byte) cursor {
	c := cursor{rest: wire, left: t.Dimension, lengths: lengthsVint}
	if w := t.Elems[0].fixedWidth(); w > 0 {
		c.lengths = w
	}
	return c
}

// AppendVector appends the wire form of a vector. The number of elements must equal the dimension.
func (t *Type) AppendVector(dst []byte, elems ...[]byte) []byte {
	fixed := t.Elems[0].fixedWidth() > 0
	for _, e := range elems {
		if !fixed {
			dst = appendUvint(dst, uint64(len(e)))
		}
		dst = append(dst, e...)
	}
	return dst
}

func validateVector(t *Type, wire []byte) error {
	if len(wire) == 0 {
		return dberr.Invalidf("Invalid empty vector value")
	}
	c := t.elements(wire)
	for {
		elem, more := c.next()
		if !more {
			break
		}
		if err := t.Elems[0].Validate(elem); err != nil {
			return err
		}
	}
	if c.bad {
		return dberr.Invalidf("Not enough bytes to read a %s", t)
	}
	if n := len(c.rest); n > 0 {
		return dberr.Invalidf("Unexpected %d extraneous bytes after %s value", n, t)
	}
	return nil
}

// Floats appends the elements of a vector of floats to dst. ok is false for any other value.
func (t *Type) Floats(dst []float32, wire []byte) (v []float32, ok bool) {
	if t.Kind != Vector || t.Elems[0].Kind != Float || len(wire) != 4*t.Dimension {
		return dst, false
	}
	for i := 0; i < len(wire); i += 4 {
		dst = append(dst, math.Float32frombits(binary.BigEndian.Uint32(wire[i:])))
	}
	return dst, true
}

// readVectorKey reconstructs a vector from the forms of its elements.
func (r *keyReader) readVectorKey(t *Type, dst []byte) ([]byte, bool) {
	fixed := t.Elems[0].fixedWidth() > 0
	var room []byte
	for range t.Dimension {
		var null, ok bool
		if fixed {
			dst, null, ok = r.readKey(t.Elems[0], dst)
		} else {
			if room, null, ok = r.readKey(t.Elems[0], room[:0]); ok {
				dst = append(appendUvint(dst, uint64(len(room))), room...)
			}
		}
		if !ok || null {
			return dst, false
		}
	}
	end, ok := r.byte()
	return dst, ok && end == keyEnd
}

// readUvint decodes one of Cassandra's unsigned variable-length integers. The number of leading 1 bits in the first
// byte equals the number of bytes that follow.
func readUvint(b []byte) (u uint64, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	extra := bits.LeadingZeros8(^b[0])
	if len(b) < 1+extra {
		return 0, nil, false
	}
	u = uint64(b[0]) & (0xff >> extra)
	for _, x := range b[1 : 1+extra] {
		u = u<<8 | uint64(x)
	}
	return u, b[1+extra:], true
}

func appendUvint(dst []byte, u uint64) []byte {
	extra := (max(bits.Len64(u), 1) - 1) / 7
	if extra >= 8 {
		return binary.BigEndian.AppendUint64(append(dst, 0xff), u)
	}
	dst = append(dst, ^byte(0xff>>extra)|byte(u>>(8*extra)))
	for i := extra - 1; i >= 0; i-- {
		dst = append(dst, byte(u>>(8*i)))
	}
	return dst
}

// ParseJavaClass parses the class that represents a vector or the element type of a vector on the wire. ParseJavaClass
// returns nil if the class has no CQL name or if classes are nested too deeply.
func ParseJavaClass(class string) *Type {
	p := classParser{text: class}
	t := p.typ(0)
	if t == nil || p.text != "" {
		return nil
	}
	return t
}

// classDepthMax is the maximum nesting depth of classes.
const classDepthMax = 32

type classParser struct{ text string }

var classKinds = func() map[string]Kind {
	kinds := map[string]Kind{"ListType": List, "SetType": Set, "MapType": Map, "TupleType": Tuple, "VectorType": Vector}
	for k, n := range natives {
		if n.typ != nil {
			kinds[n.class] = Kind(k)
		}
	}
	return kinds
}()

func (p *classParser) typ(depth int) *Type {
	name := p.word()
	name = strings.TrimPrefix(name, marshal)
	if depth > classDepthMax {
		return nil
	}
	kind := classKinds[name]
	if kind != 0 && Native(kind) != nil {
		return Native(kind)
	}
	if kind == 0 && name != "FrozenType" || !p.take('(') {
		return nil
	}
	t := &Type{Kind: kind}
	for {
		if kind == Vector && len(t.Elems) == 1 {
			digits := p.word()
			n, err := strconv.ParseInt(digits, 10, 32)
			if t.Dimension = int(n); err != nil || n < 1 {
				return nil
			}
			break
		}
		e := p.typ(depth + 1)
		if e == nil {
			return nil
		}
		if t.Elems = append(t.Elems, e); !p.take(',') {
			break
		}
	}
	if !p.take(')') {
		return nil
	}
	return checkedClass(t)
}

// checkedClass checks the number of parameters. It freezes the parameter of FrozenType(..), which has no kind.
func checkedClass(t *Type) *Type {
	want := map[Kind]int{0: 1, List: 1, Set: 1, Map: 2, Vector: 1}
	if n, ok := want[t.Kind]; ok && n != len(t.Elems) || t.Kind == Vector && t.Dimension == 0 {
		return nil
	}
	switch t.Kind {
	case 0:
		return t.Elems[0].Freeze()
	case Tuple:
		return TupleOf(t.Elems...)
	case Vector:
		return VectorOf(t.Elems[0], t.Dimension)
	}
	return t
}

func (p *classParser) word() string {
	p.space()
	n := strings.IndexAny(p.text, "(), ")
	if n < 0 {
		n = len(p.text)
	}
	word := p.text[:n]
	p.text = p.text[n:]
	return word
}

func (p *classParser) take(c byte) bool {
	p.space()
	if p.text == "" || p.text[0] != c {
		return false
	}
	p.text = p.text[1:]
	return true
}

func (p *classParser) space() { p.text = strings.TrimLeft(p.text, " ") }
