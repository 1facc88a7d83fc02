// SPDX-License-Identifier: Apache-2.0

package java

import (
	"math/big"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

func dayBytes(days int64) []byte {
	b, _ := cqltype.Native(cqltype.Date).Kind.FromInt64(days)
	return b
}

// fromWire converts a valid wire value to a Java value. An empty number is converted to null.
func (f *frame) fromWire(t *cqltype.Type, wire []byte) any {
	if wire == nil {
		return nil
	}
	f.alloc(len(wire) + 16)
	switch t.Kind {
	case cqltype.Ascii, cqltype.Text:
		return string(wire)
	case cqltype.Boolean:
		return numberBox(kBoolean, len(wire) > 0, int64(append(wire[:len(wire):len(wire)], 0)[0]))
	case cqltype.Tinyint, cqltype.Smallint, cqltype.Int, cqltype.Bigint, cqltype.Counter, cqltype.Time:
		n, ok := t.Kind.Int64(wire)
		return numberBox(typeOf(t, true).kind, ok, n)
	case cqltype.Float, cqltype.Double:
		n, ok := t.Kind.Float64(wire)
		return numberBox(typeOf(t, true).kind, ok, ofFloat(n).n)
	case cqltype.Timestamp:
		if n, ok := t.Kind.Int64(wire); ok {
			return date(n)
		}
		return nil
	case cqltype.Date:
		if n, ok := t.Kind.Int64(wire); ok {
			return localDate(n)
		}
		return nil
	case cqltype.Varint:
		if len(wire) == 0 {
			return nil
		}
		return cqltype.DecodeVarint(wire)
	case cqltype.Decimal:
		if d, ok := cqltype.DecodeDecimal(wire); ok {
			return d
		}
		return nil
	case cqltype.Duration:
		if d, ok := cqltype.DecodeDuration(wire); ok {
			return d
		}
		return nil
	case cqltype.UUID, cqltype.Timeuuid:
		if len(wire) != 16 {
			return nil
		}
		return uuidValue(wire)
	case cqltype.Inet:
		if len(wire) == 0 {
			return nil
		}
		return inet(wire)
	}
	return f.compositeFromWire(t, wire)
}

// compositeFromWire returns the Java value of a collection, a tuple, or a user-defined type. A value of any other type
// is converted to a ByteBuffer.
func (f *frame) compositeFromWire(t *cqltype.Type, wire []byte) any {
	switch t.Kind {
	case cqltype.List, cqltype.Vector:
		l := &list{}
		for _, e := range t.Elements(wire) {
			l.elems = append(l.elems, f.fromWire(t.Elems[0], e))
		}
		f.alloc(16 * len(l.elems))
		return l
	case cqltype.Set:
		d := newDict(true)
		for _, e := range t.Elements(wire) {
			d.put(f, f.fromWire(t.Elems[0], e), nil)
		}
		return d
	case cqltype.Map:
		d := newDict(false)
		for k, v := range t.Entries(wire) {
			d.put(f, f.fromWire(t.Elems[0], k), f.fromWire(t.Elems[1], v))
		}
		return d
	case cqltype.Tuple, cqltype.UDT:
		r := &record{typ: t, fields: make([]any, len(t.Elems))}
		f.alloc(16 * len(t.Elems))
		for i, e := range t.Elems {
			r.fields[i] = f.fromWire(e, t.Element(wire, i))
		}
		return r
	}
	return &buffer{bytes: append([]byte{}, wire...)}
}

func numberBox(k kind, ok bool, n int64) any {
	if !ok {
		return nil
	}
	return box{k, n}
}

// toWire converts a Java value to a wire value. If the class of the value does not match the type, toWire throws an
// exception.
func (p *Program) toWire(f *frame, t *cqltype.Type, r any) []byte {
	if r == nil {
		return nil
	}
	defer f.enter()()
	wire := p.encode(f, t, r)
	if wire == nil {
		throw("ClassCastException", "class %s cannot be cast to class %s", fullName(classOf(r)),
			fullName(typeOf(t, false).name))
	}
	f.alloc(len(wire))
	return wire
}

// encode works like toWire. However, if the class of the value does not match the type, encode returns nil.
func (p *Program) encode(f *frame, t *cqltype.Type, r any) []byte {
	if b, ok := r.(box); ok {
		return encodeBox(t, b)
	}
	var wire []byte
	switch v := r.(type) {
	case string:
		if t.Kind != cqltype.Text && t.Kind != cqltype.Ascii {
			return nil
		}
		wire = append([]byte{}, v...)
	case date:
		if t.Kind == cqltype.Timestamp {
			wire, _ = t.Kind.FromInt64(int64(v))
		}
	case localDate:
		if t.Kind == cqltype.Date {
			wire = dayBytes(int64(v))
		}
	case uuidValue:
		if t.Kind == cqltype.UUID || t.Kind == cqltype.Timeuuid {
			wire = append([]byte{}, v[:]...)
		}
	case inet:
		if t.Kind == cqltype.Inet {
			wire = []byte(v)
		}
	case *big.Int:
		if t.Kind == cqltype.Varint {
			wire = cqltype.EncodeVarint(v)
		}
	case cqltype.DecimalValue:
		if t.Kind == cqltype.Decimal {
			wire = cqltype.EncodeDecimal(v)
		}
	case cqltype.DurationValue:
		if t.Kind == cqltype.Duration {
			wire = cqltype.EncodeDuration(v)
		}
	case *buffer:
		if typeOf(t, false).name == "ByteBuffer" {
			wire = append([]byte{}, v.bytes[v.pos:]...)
		}
	case *record:
		if v.typ.Freeze().Equal(t.Freeze()) {
			parts := make([][]byte, len(t.Elems))
			for i, e := range t.Elems {
				parts[i] = p.toWire(f, e, v.fields[i])
			}
			return append(make([]byte, 0), t.AppendTuple(nil, parts...)...)
		}
	case *list, *dict:
		wire = p.collection(f, t, r)
	}
	if wire != nil {
		if err := t.Validate(wire); err != nil {
			throw("IllegalArgumentException", "%s", err.Error())
		}
	}
	return wire
}

// encodeBox returns the wire format of a boxed primitive, or nil if the type does not match.
func encodeBox(t *cqltype.Type, b box) []byte {
	if kind := typeOf(t, true); kind == nil || kind.kind != b.kind {
		return nil
	}
	switch b.kind {
	case kBoolean:
		return cqltype.EncodeBoolean(b.n != 0)
	case kFloat, kDouble:
		return t.Kind.FromFloat64(value{n: b.n}.float())
	}
	wire, ok := t.Kind.FromInt64(b.n)
	if !ok {
		throw("IllegalArgumentException", "%d is out of the range of %s", b.n, t)
	}
	return wire
}

func (p *Program) collection(f *frame, t *cqltype.Type, r any) []byte {
	part := func(e *cqltype.Type, r any) []byte {
		w := p.toWire(f, e, r)
		if w == nil {
			throw("NullPointerException", "null is not supported inside collections")
		}
		return w
	}
	d, isDict := r.(*dict)
	var parts [][]byte
	switch {
	case t.Kind == cqltype.Map && isDict && !d.isSet:
		for i, k := range d.keys {
			parts = append(parts, part(t.Elems[0], k), part(t.Elems[1], d.values[i]))
		}
		return t.SortedMap(parts)
	case t.Kind != cqltype.List && t.Kind != cqltype.Set && t.Kind != cqltype.Vector, isDict && !d.isSet:
		return nil
	case isDict != (t.Kind == cqltype.Set):
		return nil
	}
	for _, e := range elements(r) {
		parts = append(parts, part(t.Elems[0], e))
	}
	if t.Kind == cqltype.Set {
		return t.SortedSet(parts)
	}
	if t.Kind == cqltype.Vector && len(parts) != t.Dimension {
		throw("IllegalArgumentException", "the vector has %d elements; expected %d", len(parts), t.Dimension)
	}
	if t.Kind == cqltype.Vector {
		return t.AppendVector([]byte{}, parts...)
	}
	return t.AppendCollection([]byte{}, parts...)
}
