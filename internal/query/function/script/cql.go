// SPDX-License-Identifier: Apache-2.0

package script

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/dop251/goja"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// exactMax is the maximum integer n for which JavaScript numbers represent all integers from 0 to n.
const exactMax = 1<<53 - 1

// cqlArguments returns udfContext and the arguments of a CQL function.
func (r *realm) cqlArguments(c *Call) ([]goja.Value, error) {
	args := make([]goja.Value, 0, len(c.wire)+1)
	for i, t := range c.cql.args {
		v, err := r.fromWire(t, c.wire[i])
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	context := r.vm.NewObject()
	for _, name := range []string{"newReturnUDTValue", "newReturnTupleValue", "newArgUDTValue", "newArgTupleValue"} {
		r.method(context, name, func(goja.FunctionCall) goja.Value { return r.vm.CreateObject(r.records) })
	}
	return append(args, context), nil
}

func inexact(t *cqltype.Type, text string) error {
	return refused("The %s %s exceeds %[3]d, the greatest exact integer in JavaScript: use LANGUAGE java", t, text,
		int64(exactMax))
}

// fromWire converts a valid wire value to a JavaScript value.
func (r *realm) fromWire(t *cqltype.Type, wire []byte) (goja.Value, error) {
	if wire == nil {
		return goja.Null(), nil
	}
	switch t.Kind {
	case cqltype.Ascii, cqltype.Text:
		return r.vm.ToValue(string(wire)), nil
	case cqltype.Boolean:
		return r.vm.ToValue(len(wire) > 0 && wire[0] != 0), nil
	case cqltype.Tinyint, cqltype.Smallint, cqltype.Int, cqltype.Bigint, cqltype.Counter:
		n, ok := t.Kind.Int64(wire)
		if !ok {
			return goja.Null(), nil
		}
		if n > exactMax || n < -exactMax {
			return nil, inexact(t, strconv.FormatInt(n, 10))
		}
		return r.vm.ToValue(n), nil
	case cqltype.Float, cqltype.Double:
		if n, ok := t.Kind.Float64(wire); ok {
			return r.vm.ToValue(n), nil
		}
		return goja.Null(), nil
	case cqltype.Varint:
		n := cqltype.DecodeVarint(wire)
		if !n.IsInt64() || n.Int64() > exactMax || n.Int64() < -exactMax {
			return nil, inexact(t, "value")
		}
		return r.vm.ToValue(n.Int64()), nil
	case cqltype.Decimal:
		f, _ := strconv.ParseFloat(t.Text(wire), 64)
		return r.vm.ToValue(f), nil
	case cqltype.Timestamp:
		n, ok := t.Kind.Int64(wire)
		if !ok {
			return goja.Null(), nil
		}
		return r.vm.New(r.newDate, r.vm.ToValue(n))
	case cqltype.List, cqltype.Set, cqltype.Vector:
		return r.fromElements(t, wire)
	case cqltype.Map:
		return r.fromMap(t, wire)
	case cqltype.Tuple, cqltype.UDT:
		o := r.vm.CreateObject(r.records)
		for i, e := range t.Elems {
			v, err := r.fromWire(e, t.Element(wire, i))
			if err != nil {
				return nil, err
			}
			name := strconv.Itoa(i)
			if t.Kind == cqltype.UDT {
				name = t.Fields[i]
			}
			r.define(o, name, v)
		}
		return o, nil
	}
	return r.vm.ToValue(t.Text(wire)), nil
}

// define sets an own property of an object, regardless of the object's prototypes.
func (r *realm) define(o *goja.Object, name string, v goja.Value) {
	must(o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_TRUE))
}

func (r *realm) fromElements(t *cqltype.Type, wire []byte) (goja.Value, error) {
	var elems []any
	for _, e := range t.Elements(wire) {
		v, err := r.fromWire(t.Elems[0], e)
		if err != nil {
			return nil, err
		}
		if elems = append(elems, v); len(elems) > arrayMax {
			return nil, refused("A collection has more than %d elements", arrayMax)
		}
	}
	a := r.vm.NewArray(elems...)
	return a, a.SetPrototype(r.lists)
}

func (r *realm) fromMap(t *cqltype.Type, wire []byte) (goja.Value, error) {
	o := r.vm.CreateObject(r.maps)
	n := 0
	for k, e := range t.Entries(wire) {
		if n++; n > arrayMax {
			return nil, refused("A map has more than %d entries", arrayMax)
		}
		v, err := r.fromWire(t.Elems[1], e)
		if err != nil {
			return nil, err
		}
		r.define(o, keyText(t.Elems[0], k), v)
	}
	return o, nil
}

// keyText returns the property name for a map key.
func keyText(t *cqltype.Type, key []byte) string {
	if t.Kind == cqltype.Text || t.Kind == cqltype.Ascii {
		return string(key)
	}
	return t.Text(key)
}

// cqlResult encodes the result of a CQL function.
func (r *run) cqlResult(out *result, returned goja.Value) *Failure {
	e := encoder{realm: r.realm, room: stringMax}
	var bad error
	ex := r.realm.vm.Try(func() { out.wire, bad = e.wire(r.call.cql.returns, returned) })
	if f := r.stopped.Load(); f != nil {
		return f
	}
	if ex != nil {
		return r.failure(ex)
	}
	if bad != nil {
		return refused("The result of the function is not of type %s: %v", r.call.cql.returns, bad)
	}
	return nil
}

// encoder converts JavaScript values to wire values.
type encoder struct {
	realm *realm
	// room is the number of bytes that may still be written.
	room int
}

// integer converts a number to an integer in the same way as Java. It truncates the number and limits the result to the
// range of the given number of bits.
func integer(f float64, bits int) int64 {
	most := int64(math.MaxInt64) >> (64 - bits)
	switch {
	case f != f:
		return 0
	case f >= float64(most):
		return most
	case f <= float64(-most-1):
		return -most - 1
	}
	return int64(f)
}

var integerBits = map[cqltype.Kind]int{cqltype.Tinyint: 8, cqltype.Smallint: 16, cqltype.Int: 32, cqltype.Bigint: 64,
	cqltype.Counter: 64}

func (e *encoder) wire(t *cqltype.Type, v goja.Value) ([]byte, error) {
	e.realm.heed()
	if e.room -= 8; e.room < 0 {
		return nil, refused("it is larger than %d bytes", stringMax)
	}
	if v == nil || goja.IsNull(v) || goja.IsUndefined(v) {
		return nil, nil
	}
	wire, err := e.encode(t, v)
	if err != nil {
		return nil, err
	}
	if e.room -= len(wire); e.room < 0 {
		return nil, refused("it is larger than %d bytes", stringMax)
	}
	if wire == nil {
		return nil, refused("%.100s", v.String())
	}
	return wire, t.Validate(wire)
}

// encode returns the wire value of a value that is not null. If the value does not fit the type, encode returns nil.
func (e *encoder) encode(t *cqltype.Type, v goja.Value) ([]byte, error) {
	o, isObject := v.(*goja.Object)
	switch {
	case t.Kind == cqltype.Boolean:
		if b, ok := v.Export().(bool); ok {
			return cqltype.EncodeBoolean(b), nil
		}
		return nil, nil
	case t.Kind == cqltype.Text || t.Kind == cqltype.Ascii:
		if goja.IsString(v) {
			return append([]byte{}, v.String()...), nil
		}
		return nil, nil
	case goja.IsString(v):
		if t.Kind == cqltype.Blob {
			return t.FromText(strings.TrimPrefix(v.String(), "0x"))
		}
		if t.Kind.IsNative() {
			return t.FromText(v.String())
		}
		return nil, nil
	case goja.IsNumber(v):
		return number(t, v.ToFloat()), nil
	case t.Kind == cqltype.Timestamp && isObject && o.ClassName() == "Date":
		return number(t, o.ToFloat()), nil
	case !isObject:
		return nil, nil
	case t.Kind == cqltype.List || t.Kind == cqltype.Set || t.Kind == cqltype.Vector:
		return e.elements(t, o)
	case t.Kind == cqltype.Map:
		return e.entries(t, o)
	case t.Kind == cqltype.Tuple || t.Kind == cqltype.UDT:
		parts := make([][]byte, len(t.Elems))
		for i, elem := range t.Elems {
			name := strconv.Itoa(i)
			if t.Kind == cqltype.UDT {
				name = t.Fields[i]
			}
			var err error
			if parts[i], err = e.wire(elem, o.Get(name)); err != nil {
				return nil, err
			}
		}
		return t.AppendTuple([]byte{}, parts...), nil
	}
	return nil, nil
}

func number(t *cqltype.Type, f float64) []byte {
	if bits := integerBits[t.Kind]; bits > 0 {
		wire, _ := t.Kind.FromInt64(integer(f, bits))
		return wire
	}
	switch t.Kind {
	case cqltype.Float, cqltype.Double:
		return t.Kind.FromFloat64(f)
	case cqltype.Timestamp:
		wire, _ := t.Kind.FromInt64(integer(f, 64))
		return wire
	case cqltype.Varint:
		if f-f != 0 {
			return nil
		}
		n, _ := big.NewFloat(f).Int(nil)
		return cqltype.EncodeVarint(n)
	case cqltype.Decimal:
		if d, ok := cqltype.ParseDecimal(strconv.FormatFloat(f, 'g', -1, 64)); ok {
			return cqltype.EncodeDecimal(d)
		}
	}
	return nil
}

// part encodes an element of a collection. The element must not be null.
func (e *encoder) part(t *cqltype.Type, v goja.Value) ([]byte, error) {
	wire, err := e.wire(t, v)
	if err == nil && wire == nil {
		err = refused("null is not supported inside collections")
	}
	return wire, err
}

func (e *encoder) elements(t *cqltype.Type, o *goja.Object) ([]byte, error) {
	if o.ClassName() != "Array" {
		return nil, nil
	}
	var parts [][]byte
	for i := range o.Get("length").ToInteger() {
		p, err := e.part(t.Elems[0], o.Get(strconv.FormatInt(i, 10)))
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	switch {
	case t.Kind == cqltype.Set:
		return t.SortedSet(parts), nil
	case t.Kind == cqltype.Vector && len(parts) != t.Dimension:
		return nil, refused("it has %d elements; expected %d", len(parts), t.Dimension)
	case t.Kind == cqltype.Vector:
		return t.AppendVector([]byte{}, parts...), nil
	}
	return t.AppendCollection([]byte{}, parts...), nil
}

func (e *encoder) entries(t *cqltype.Type, o *goja.Object) ([]byte, error) {
	if o.ClassName() == "Array" {
		return nil, nil
	}
	var parts [][]byte
	for _, name := range o.Keys() {
		key, err := e.part(t.Elems[0], e.realm.vm.ToValue(name))
		if err != nil {
			return nil, err
		}
		v, err := e.part(t.Elems[1], o.Get(name))
		if err != nil {
			return nil, err
		}
		parts = append(parts, key, v)
	}
	return t.SortedMap(parts), nil
}
