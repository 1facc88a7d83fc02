// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"math"
	"math/big"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// castName returns the name of the function that implements CAST(x AS t), such as castAsInt or cast_as_int.
func castName(rel *compat.Release, t *cqltype.Type) string {
	s := t.String()
	if !rel.CamelCasts {
		return "cast_as_" + s
	}
	return "castAs" + strings.ToUpper(s[:1]) + s[1:]
}

// castFunctions returns the conversions of CAST.
func castFunctions() []*function {
	var fs []*function
	add := func(from, to *cqltype.Type, call func(v []byte) ([]byte, error)) {
		if from == to {
			return
		}
		for _, rel := range []*compat.Release{compat.Cassandra40, compat.Cassandra50} {
			call := call
			if rel.WideFloatCasts && from == tFloat && to == tDecimal {
				call = func(v []byte) ([]byte, error) { return castWide(v) }
			}
			fs = append(fs, scalar(true, to, types(from), func(_ *Bindings, args [][]byte) ([]byte, error) {
				return call(args[0])
			}, castName(rel, to))...)
		}
	}
	numeric := types(tTinyint, tSmallint, tInt, tBigint, tFloat, tDouble, tDecimal, tCounter, tVarint)
	for _, from := range numeric {
		for _, to := range numeric {
			if to != tCounter {
				add(from, to, func(v []byte) ([]byte, error) { return castNumber(from, to, v) })
			}
		}
	}
	texts := append(numeric, cqltype.Native(cqltype.Boolean), tTimestamp, tDate, tTime, tUUID, tTimeuuid,
		cqltype.Native(cqltype.Inet))
	for _, to := range types(tAscii, tText) {
		for _, from := range texts {
			add(from, to, func(v []byte) ([]byte, error) {
				if len(v) == 0 {
					return nil, nil
				}
				return []byte(from.Text(v)), nil
			})
		}
	}
	add(tAscii, tText, func(v []byte) ([]byte, error) { return v, nil })
	for _, c := range [][2]*cqltype.Type{{tTimeuuid, tDate}, {tTimestamp, tDate}, {tTimeuuid, tTimestamp},
		{tDate, tTimestamp}} {
		add(c[0], c[1], func(v []byte) ([]byte, error) {
			ms, ok := millis(c[0], v)
			if !ok {
				return nil, nil
			}
			if c[1] == tDate {
				return dateOf(ms), nil
			}
			return fromInt64(tTimestamp, ms), nil
		})
	}
	return fs
}

// castNumber converts numbers in the same way as Java's Number. Conversions of integers keep the low bits, and
// conversions of floats saturate.
func castNumber(from, to *cqltype.Type, v []byte) ([]byte, error) {
	if len(v) == 0 {
		return nil, nil
	}
	switch to.Kind {
	case cqltype.Float:
		if from.Kind == cqltype.Varint {
			f, _ := new(big.Float).SetInt(cqltype.DecodeVarint(v)).Float32()
			return fromFloat32(f), nil
		}
		f, ok := castFloat(from, v)
		if !ok {
			return nil, nil
		}
		return fromFloat32(float32(f)), nil
	case cqltype.Double:
		f, ok := castFloat(from, v)
		if !ok {
			return nil, nil
		}
		return fromFloat64(f), nil
	case cqltype.Decimal:
		d, ok, err := toDecimal(from, v)
		if from.Kind == cqltype.Float && ok && err == nil {
			d, ok = cqltype.ParseDecimal(from.Text(v))
		}
		if err != nil || !ok {
			return nil, err
		}
		return cqltype.EncodeDecimal(d), nil
	}
	i, ok := castInteger(from, to, v)
	if !ok {
		return nil, nil
	}
	if to.Kind == cqltype.Varint {
		return cqltype.EncodeVarint(big.NewInt(i)), nil
	}
	return wrap(to, i), nil
}

// castWide converts a float to a double and then to a decimal. The text of the double has more digits than the text of
// the float.
func castWide(v []byte) ([]byte, error) {
	d, ok, err := toDecimal(tFloat, v)
	if err != nil || !ok {
		return nil, err
	}
	return cqltype.EncodeDecimal(d), nil
}

func castFloat(from *cqltype.Type, v []byte) (float64, bool) {
	switch from.Kind {
	case cqltype.Varint:
		f, _ := new(big.Float).SetInt(cqltype.DecodeVarint(v)).Float64()
		return f, true
	case cqltype.Decimal:
		d, ok := cqltype.DecodeDecimal(v)
		if !ok {
			return 0, false
		}
		return float64OfDecimal(d), true
	}
	return toFloat64(from, v)
}

func castInteger(from, to *cqltype.Type, v []byte) (int64, bool) {
	switch from.Kind {
	case cqltype.Float, cqltype.Double:
		f, ok := from.Kind.Float64(v)
		if to.Kind == cqltype.Bigint || to.Kind == cqltype.Varint {
			return saturate(f, math.MinInt64, math.MaxInt64), ok
		}
		return saturate(f, math.MinInt32, math.MaxInt32), ok // narrower types use the low bits of the int
	case cqltype.Varint:
		return lowBits(cqltype.DecodeVarint(v)), true
	case cqltype.Decimal:
		d, ok := cqltype.DecodeDecimal(v)
		if !ok {
			return 0, false
		}
		i, ok := truncated(d)
		if !ok {
			return 0, true // the low bits of a multiple of a large power of ten are zero
		}
		return lowBits(i), true
	}
	return from.Kind.Int64(v)
}

// saturate truncates a number to an integer. For NaN, it returns 0. For numbers out of range, it returns the nearest
// bound.
func saturate(f float64, low, high int64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= float64(high):
		return high
	case f <= float64(low):
		return low
	}
	return int64(f)
}

// castIsNoop reports whether the operand of a cast already has the target type. A cast without an effect is ignored,
// even in the name of the column.
func (in *inference) castIsNoop(t *parser.Cast) bool {
	from := in.exactType(t.Term)
	to, err := in.env.ResolveType(t.Type)
	return err == nil && from != nil && sameValues(from, to)
}

// bindCast binds a cast in a SELECT clause.
func (b *binder) bindCast(t *parser.Cast) (Term, error) {
	to, err := b.env.ResolveType(t.Type)
	if err != nil {
		return nil, err
	}
	if b.castIsNoop(t) {
		return b.selector(t.Term, to)
	}
	if b.exactType(t.Term) == nil {
		// Binding the term returns a more specific error, such as an unknown column or function.
		if _, err := b.selector(t.Term, nil); err != nil {
			return nil, err
		}
	}
	f, err := b.castForm(t, to)
	if err != nil {
		return nil, err
	}
	arg, err := b.selector(t.Term, f.args[0])
	if err != nil {
		return nil, err
	}
	return b.newCall(f, []Term{arg})
}

// castForm returns the function that casts a term to a type.
func (in *inference) castForm(t *parser.Cast, to *cqltype.Type) (*function, error) {
	name := castName(in.env.Release, to)
	forms := natives[name]
	if len(forms) > 0 {
		return in.best(&callee{name: "system." + name, forms: forms, args: []parser.Term{t.Term}}, nil)
	}
	of := t.Term
	for inner, ok := of.(*parser.Cast); ok; inner, ok = of.(*parser.Cast) {
		of = inner.Term // like Cassandra, the error contains the column
	}
	return nil, dberr.Invalidf("%s cannot be cast to %s", Text(of), typeText(t.Type, ""))
}

// bindCastFor binds a cast outside a SELECT clause.
func (b *binder) bindCastFor(t *parser.Cast, r Receiver) (Term, error) {
	to, err := b.env.ResolveType(t.Type)
	switch {
	case err != nil:
		return nil, err
	case assign(r.Type, to) == cqltype.NoFit:
		return nil, dberr.Invalidf("Type error: cannot assign result of function system.%s (type %s) to %s (type %s)",
			castName(b.env.Release, to), to, r.Name, r.Type)
	case b.castIsNoop(t):
		return b.bind(t.Term, Receiver{Name: r.Name, Type: to})
	}
	f, err := b.castForm(t, to)
	if err != nil {
		return nil, err
	}
	arg, err := b.bind(t.Term, Receiver{Name: "arg0(" + strings.ToLower(f.qualified()) + ")", Type: f.args[0]})
	if err != nil {
		return nil, err
	}
	return b.newCall(f, []Term{arg})
}
