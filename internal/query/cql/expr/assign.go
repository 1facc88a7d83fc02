// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// compatibleWith reports whether all values of the type from are valid values of the type to.
func compatibleWith(to, from *cqltype.Type) bool {
	if sameValues(to, from) {
		return true
	}
	switch to.Kind {
	case cqltype.Blob:
		return true // every value is valid as a blob
	case cqltype.Text:
		return from.Kind == cqltype.Ascii
	case cqltype.UUID:
		return from.Kind == cqltype.Timeuuid
	case cqltype.Bigint:
		return from.Kind == cqltype.Timestamp
	case cqltype.Timestamp:
		return from.Kind == cqltype.Bigint
	case cqltype.Varint:
		return from.Kind == cqltype.Int || from.Kind == cqltype.Bigint || from.Kind == cqltype.Timestamp
	case cqltype.Date:
		return from.Kind == cqltype.Int
	case cqltype.Time:
		return from.Kind == cqltype.Bigint
	case cqltype.List, cqltype.Set, cqltype.Map:
		return from.Kind == to.Kind && allCompatible(to.Elems, from.Elems)
	case cqltype.Tuple:
		// The shorter tuple type lacks the last components.
		return (from.Kind == cqltype.Tuple || from.Kind == cqltype.UDT) && len(from.Elems) <= len(to.Elems) &&
			allCompatible(to.Elems[:len(from.Elems)], from.Elems)
	}
	return false
}

func allCompatible(to, from []*cqltype.Type) bool {
	for i := range to {
		if !compatibleWith(to[i], from[i]) {
			return false
		}
	}
	return true
}

// sameValues reports whether two types have the same values. It ignores whether the types are frozen.
func sameValues(a, b *cqltype.Type) bool { return a.Equal(b) || a.Freeze().Equal(b.Freeze()) }

// assign returns the degree to which a value of the type from fits a receiver of the type to.
func assign(to, from *cqltype.Type) cqltype.Fit {
	switch {
	case sameValues(to, from):
		return cqltype.ExactFit
	case compatibleWith(to, from):
		return cqltype.WeakFit
	}
	return cqltype.NoFit
}

// constantKinds maps the constant kinds of package parser to the constant kinds of package cqltype.
var constantKinds = [...]cqltype.Constant{
	parser.StringConstant: cqltype.StringConst, parser.IntegerConstant: cqltype.IntegerConst,
	parser.FloatConstant:   cqltype.FloatConst,
	parser.BooleanConstant: cqltype.BooleanConst, parser.UUIDConstant: cqltype.UUIDConst,
	parser.HexConstant:      cqltype.HexConst,
	parser.DurationConstant: cqltype.DurationConst,
}

// binder binds the terms of one clause.
type binder struct {
	inference
	// inAggregate is true while the arguments of an aggregate are bound.
	inAggregate bool
	// sound holds the terms in which checkInside has found no error.
	sound map[parser.Term]struct{}
}

// inference determines the types of unbound terms and the overloads of calls. It caches the results. Without the cache,
// the type inference for nested calls and nested arithmetic would take exponential time. Each cached type keeps its
// pointer, so that cached results for the type can be found.
type inference struct {
	env *Env
	// Outside a SELECT clause, scope is nil.
	scope            Scope
	fits             map[fitKey]cqltype.Fit
	resolved         map[fitKey]resolution
	exact, preferred map[parser.Term]*cqltype.Type
}

type fitKey struct {
	term parser.Term
	typ  *cqltype.Type
}

// resolution is a result of resolveCall.
type resolution struct {
	form *function
	err  error
}

// remember stores a value in a map. If the map is nil, remember creates the map.
func remember[K comparable, V any](m *map[K]V, k K, v V) V {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
	return v
}

// fit returns the degree to which an unbound term fits a type.
func (in *inference) fit(t parser.Term, to *cqltype.Type) cqltype.Fit {
	switch t := t.(type) {
	case *parser.Constant:
		return to.Fits(constantKinds[t.Kind], t.Text)
	case *parser.Null:
		if to.Kind == cqltype.Counter {
			return cqltype.NoFit
		}
		return cqltype.WeakFit
	case *parser.Marker:
		return cqltype.WeakFit
	}
	key := fitKey{t, to}
	if f, ok := in.fits[key]; ok {
		return f
	}
	return remember(&in.fits, key, in.computeFit(t, to))
}

func (in *inference) computeFit(t parser.Term, to *cqltype.Type) cqltype.Fit {
	switch t := t.(type) {
	case *parser.ListLiteral:
		if to.Kind != cqltype.List && (to.Kind != cqltype.Vector || len(t.Elems) != to.Dimension) {
			return cqltype.NoFit
		}
		return in.fitAll(t.Elems, to.Elems[0])
	case *parser.SetLiteral:
		if to.Kind == cqltype.Map && len(t.Elems) == 0 {
			return cqltype.WeakFit
		}
		if to.Kind != cqltype.Set {
			return cqltype.NoFit
		}
		return in.fitAll(t.Elems, to.Elems[0])
	case *parser.MapLiteral:
		return in.fitMap(t, to)
	case *parser.UDTLiteral:
		if in.checkUDT(t, Receiver{Type: to}) != nil {
			return cqltype.NoFit
		}
		return cqltype.WeakFit
	case *parser.TupleLiteral:
		if inner := parenthesized(t, to); inner != nil {
			return in.fit(inner, to)
		}
		if in.checkTuple(t, Receiver{Type: to}) != nil {
			return cqltype.NoFit
		}
		return cqltype.WeakFit
	case *parser.FunctionCall, *parser.Arithmetic, *parser.Negate:
		return in.fitCall(t, to)
	}
	if from := in.exactType(t); from != nil {
		return assign(to, from)
	}
	if p, ok := t.(*parser.Paren); ok {
		return in.fit(p.Term, to)
	}
	return cqltype.NoFit
}

func (in *inference) fitAll(terms []parser.Term, to *cqltype.Type) cqltype.Fit {
	if len(terms) == 0 {
		return cqltype.WeakFit // an empty collection can have any type
	}
	worst := cqltype.ExactFit
	for _, t := range terms {
		worst = min(worst, in.fit(t, to))
	}
	return worst
}

func (in *inference) fitMap(t *parser.MapLiteral, to *cqltype.Type) cqltype.Fit {
	if to.Kind == cqltype.UDT && in.scope != nil {
		if u, ok := asUDT(t); ok {
			return in.fit(u, to)
		}
	}
	if to.Kind != cqltype.Map {
		return cqltype.NoFit
	}
	worst := cqltype.ExactFit
	for _, e := range t.Entries {
		worst = min(worst, in.fit(e.Key, to.Elems[0]), in.fit(e.Value, to.Elems[1]))
	}
	return worst
}

// fitCall returns the degree to which the result of a function or operation fits a type. If the function is unknown or
// no overload matches, fitCall returns WeakFit, because binding the call returns a more precise error.
func (in *inference) fitCall(t parser.Term, to *cqltype.Type) cqltype.Fit {
	receiver := to
	if in.scope != nil {
		receiver = nil
	}
	f, err := in.resolveCall(t, receiver)
	if err != nil || f == nil || f.result == nil {
		return cqltype.WeakFit
	}
	return assign(to, f.result)
}

// exactType returns the type of a term if the type does not depend on the term's receiver. Otherwise, it returns nil.
func (in *inference) exactType(t parser.Term) *cqltype.Type {
	switch t.(type) {
	case *parser.Constant, *parser.Marker, *parser.Null:
		return nil
	}
	if known, ok := in.exact[t]; ok {
		return known
	}
	return remember(&in.exact, t, in.computeExactType(t))
}

func (in *inference) computeExactType(t parser.Term) *cqltype.Type {
	switch t := t.(type) {
	case *parser.TypeHint:
		if typ, err := in.env.ResolveType(t.Type); err == nil {
			return typ
		}
	case *parser.Column:
		if in.scope != nil {
			if _, typ, err := in.scope.Column(t.Name); err == nil {
				return typ
			}
		}
	case *parser.Paren:
		return in.exactType(t.Term)
	case *parser.CountRows:
		return cqltype.Native(cqltype.Bigint)
	case *parser.CellMeta:
		if in.scope != nil {
			if m, err := (&binder{inference: *in}).cellMeta(t); err == nil {
				return m.Type()
			}
		}
	case *parser.Cast:
		if typ, err := in.env.ResolveType(t.Type); err == nil {
			return typ
		}
	case *parser.Field:
		if r, err := in.reference(t); err == nil && r != nil {
			return r.typ
		}
		if u := in.exactType(t.Term); u != nil && u.Kind == cqltype.UDT {
			if i := u.FieldIndex(t.Name.Name); i >= 0 {
				return u.Elems[i]
			}
		}
	case *parser.Element:
		if c := in.exactType(t.Term); c != nil && (c.Kind == cqltype.Map || c.Kind == cqltype.Set) {
			return c.Elems[len(c.Elems)-1]
		}
	case *parser.Slice:
		return in.exactType(t.Term)
	case *parser.FunctionCall, *parser.Arithmetic, *parser.Negate:
		if f, err := in.resolveCall(t, nil); err == nil && f != nil {
			return f.result
		}
	default:
		return in.exactLiteralType(t)
	}
	return nil
}

// exactLiteralType works like exactType for collections and tuples. The type is known if the types of the elements are
// known.
func (in *inference) exactLiteralType(t parser.Term) *cqltype.Type {
	first := func(terms []parser.Term) *cqltype.Type {
		for _, e := range terms {
			if typ := in.exactType(e); typ != nil {
				return typ
			}
		}
		return nil
	}
	switch t := t.(type) {
	case *parser.ListLiteral:
		if e := first(t.Elems); e != nil {
			return cqltype.ListOf(e).Freeze()
		}
	case *parser.SetLiteral:
		if e := first(t.Elems); e != nil {
			return cqltype.SetOf(e).Freeze()
		}
	case *parser.MapLiteral:
		var keys, values []parser.Term
		for _, e := range t.Entries {
			keys, values = append(keys, e.Key), append(values, e.Value)
		}
		if k, v := first(keys), first(values); k != nil && v != nil {
			return cqltype.MapOf(k, v).Freeze()
		}
	case *parser.TupleLiteral:
		types := make([]*cqltype.Type, len(t.Elems))
		for i, e := range t.Elems {
			if types[i] = in.exactType(e); types[i] == nil {
				return nil
			}
		}
		return cqltype.TupleOf(types...)
	}
	return nil
}

// asUDT converts a map literal to a UDT literal if all keys are names. See parser.MapLiteral.
func asUDT(t *parser.MapLiteral) (*parser.UDTLiteral, bool) {
	u := &parser.UDTLiteral{}
	for _, e := range t.Entries {
		c, ok := e.Key.(*parser.Column)
		if !ok {
			return nil, false
		}
		u.Fields = append(u.Fields, parser.FieldValue{Name: c.Name, Value: e.Value})
	}
	return u, true
}
