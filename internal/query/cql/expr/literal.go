// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// composite is a list, set, map, vector, tuple, or user-defined type of terms. For a map, elems alternates between keys
// and values.
type composite struct {
	typ   *cqltype.Type
	elems []Term // nil represents an omitted field of a user-defined type
	// selected reports whether the literal is in a SELECT clause. In a SELECT clause, list elements and map values may
	// be null.
	selected bool
}

func (c *composite) Type() *cqltype.Type { return c.typ }

func (c *composite) Eval(b *Bindings) ([]byte, State, error) {
	if err := b.Meter.Alloc(valueBytes * len(c.elems)); err != nil {
		return nil, Null, err
	}
	values := make([][]byte, len(c.elems))
	size := 0
	for i, e := range c.elems {
		if e == nil {
			continue
		}
		v, state, err := e.Eval(b)
		if err != nil {
			return nil, Null, err
		}
		if state != Value {
			if err := c.refuse(state, i); err != nil {
				return nil, Null, err
			}
		}
		values[i] = v
		size += 4 + len(v)
	}
	if err := b.charge(2*size + valueBytes*len(values)); err != nil {
		return nil, Null, err
	}
	switch c.typ.Kind {
	case cqltype.Set:
		return c.typ.SortedSet(values), Value, nil
	case cqltype.Map:
		return c.typ.SortedMap(values), Value, nil
	case cqltype.List:
		return c.typ.AppendCollection(nil, values...), Value, nil
	case cqltype.Vector:
		v := c.typ.AppendVector(nil, values...)
		return v, Value, c.typ.Validate(v) // an empty value has no width
	}
	return c.typ.AppendTuple(nil, values...), Value, nil
}

// refuse returns the error for a null or unset element. For a null in a tuple, it returns nil.
func (c *composite) refuse(s State, i int) error {
	switch {
	case c.selected && s == Null && (c.typ.Kind == cqltype.List || c.typ.Kind == cqltype.Map && i%2 == 1):
		return nil
	case c.typ.IsCollection() && s == Unset:
		return dberr.Invalidf("unset value is not supported inside collections")
	case c.typ.IsCollection():
		return dberr.Invalidf("null is not supported inside collections")
	case c.typ.Kind == cqltype.Vector && s == Unset:
		return dberr.Invalidf("unset value is not supported inside vectors")
	case c.typ.Kind == cqltype.Vector:
		return dberr.Invalidf("null is not supported inside vectors")
	case s == Unset && c.typ.Kind == cqltype.Tuple:
		return dberr.Invalidf("Invalid unset value for tuple field number %d", i)
	case s == Unset:
		return dberr.Invalidf("Invalid unset value for field '%s' of user defined type %s", c.typ.Fields[i], c.typ.Name)
	}
	return nil
}

// These constants limit the memory and the work for evaluating the constant terms of a statement during binding. If a
// term exceeds a limit, the term is evaluated during execution.
const (
	constantBytes = 4 << 20
	constantSteps = 1 << 22
)

// fold evaluates a term if all operands are constant.
func (b *binder) fold(t Term, elems []Term) (Term, error) {
	for _, e := range elems {
		if e == nil {
			continue
		}
		if _, ok := constantValue(e); !ok {
			return t, nil
		}
	}
	if b.env.calls.constants == nil {
		b.env.calls.constants = meter.New(context.Background(),
			meter.Limits{Bytes: constantBytes, Steps: constantSteps})
	}
	m := b.env.calls.constants
	if m.Err() != nil {
		return t, nil
	}
	v, _, err := t.Eval(&Bindings{Meter: m})
	if m.Err() != nil {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	return &constant{t.Type(), v}, nil
}

func (b *binder) bindComposite(r Receiver, elems []Term) (Term, error) {
	return b.fold(&composite{typ: r.Type, elems: elems, selected: b.scope != nil}, elems)
}

func (b *binder) bindList(t *parser.ListLiteral, r Receiver) (Term, error) {
	if n := len(t.Elems); r.Type.Kind == cqltype.Vector {
		if n != r.Type.Dimension {
			return nil, dberr.Invalidf("Invalid vector literal for %s of type %s; expected %d elements, but given %d", r.Name,
				r.Type, r.Type.Dimension, n)
		}
		return b.bindElements(t.Elems, r, "vector")
	}
	if r.Type.Kind != cqltype.List && !b.env.Release.LiteralTexts {
		return nil, dberr.Invalidf("Unexpected receiver type '%s'; only list and vector are expected", r.Type)
	}
	if r.Type.Kind != cqltype.List {
		return nil, dberr.Invalidf("Invalid list literal for %s of type %s", r.Name, r.Type)
	}
	return b.bindElements(t.Elems, r, "list")
}

func (b *binder) bindSet(t *parser.SetLiteral, r Receiver) (Term, error) {
	if r.Type.Kind == cqltype.Map && len(t.Elems) == 0 {
		return b.bindComposite(r, nil) // the parser parses {} as a set
	}
	if r.Type.Kind != cqltype.Set {
		return nil, dberr.Invalidf("Invalid set literal for %s of type %s", r.Name, r.Type)
	}
	return b.bindElements(t.Elems, r, "set")
}

func (b *binder) bindElements(terms []parser.Term, r Receiver, kind string) (Term, error) {
	elem := r.Element()
	for _, t := range terms {
		if b.fit(t, elem.Type) == cqltype.NoFit {
			return nil, dberr.Invalidf("Invalid %s literal for %s: value %s is not of type %s", kind, r.Name, Text(t),
				elem.Type)
		}
	}
	elems, err := b.bindAll(terms, func(int) Receiver { return elem })
	if err != nil {
		return nil, err
	}
	return b.bindComposite(r, elems)
}

func (b *binder) bindAll(terms []parser.Term, receiver func(i int) Receiver) ([]Term, error) {
	elems := make([]Term, len(terms))
	for i, t := range terms {
		e, err := b.bind(t, receiver(i))
		if err != nil {
			return nil, err
		}
		elems[i] = e
	}
	return elems, nil
}

func (b *binder) bindMap(t *parser.MapLiteral, r Receiver) (Term, error) {
	if b.scope != nil && r.Type.Kind == cqltype.UDT {
		if u, ok := asUDT(t); ok {
			return b.bindUDT(u, r)
		}
	}
	if r.Type.Kind != cqltype.Map {
		return nil, dberr.Invalidf("Invalid map literal for %s of type %s", r.Name, r.Type)
	}
	key, value := r.Key(), r.Element()
	for _, e := range t.Entries {
		if b.fit(e.Key, key.Type) == cqltype.NoFit {
			return nil, dberr.Invalidf("Invalid map literal for %s: key %s is not of type %s", r.Name, Text(e.Key),
				key.Type)
		}
		if b.fit(e.Value, value.Type) == cqltype.NoFit {
			return nil, dberr.Invalidf("Invalid map literal for %s: value %s is not of type %s", r.Name, Text(e.Value),
				value.Type)
		}
	}
	var terms []parser.Term
	for _, e := range t.Entries {
		terms = append(terms, e.Key, e.Value)
	}
	elems, err := b.bindAll(terms, func(i int) Receiver {
		if i%2 == 0 {
			return key
		}
		return value
	})
	if err != nil {
		return nil, err
	}
	return b.bindComposite(r, elems)
}

func (in *inference) checkUDT(t *parser.UDTLiteral, r Receiver) error {
	if r.Type.Kind != cqltype.UDT {
		return dberr.Invalidf("Invalid user type literal for %s of type %s", r.Name, r.Type)
	}
	for i, name := range r.Type.Fields {
		for _, f := range t.Fields {
			if f.Name.Name == name && in.fit(f.Value, r.Type.Elems[i]) == cqltype.NoFit {
				return dberr.Invalidf("Invalid user type literal for %s: field %s is not of type %s", r.Name, name,
					r.Type.Elems[i])
			}
		}
	}
	return nil
}

func (b *binder) bindUDT(t *parser.UDTLiteral, r Receiver) (Term, error) {
	if err := b.checkUDT(t, r); err != nil {
		return nil, err
	}
	elems := make([]Term, len(r.Type.Fields))
	for _, f := range t.Fields {
		i := r.Type.FieldIndex(f.Name.Name)
		if i < 0 {
			return nil, dberr.Invalidf("Unknown field '%s' in value of user defined type %s", f.Name.Name, r.Type.Name)
		}
		e, err := b.bind(f.Value, r.Field(i))
		if err != nil {
			return nil, err
		}
		elems[i] = e
	}
	return b.bindComposite(r, elems)
}

func (in *inference) checkTuple(t *parser.TupleLiteral, r Receiver) error {
	if r.Type.Kind != cqltype.Tuple && (r.Type.Kind != cqltype.UDT || !r.Type.Frozen) {
		return dberr.Invalidf("Invalid tuple type literal for %s of type %s", r.Name, r.Type)
	}
	if len(t.Elems) > len(r.Type.Elems) {
		return dberr.Invalidf("Invalid tuple literal for %s: too many elements. Type %s expects %d but got %d", r.Name,
			r.Type,
			len(r.Type.Elems), len(t.Elems))
	}
	for i, e := range t.Elems {
		if in.fit(e, r.Type.Elems[i]) == cqltype.NoFit {
			return dberr.Invalidf("Invalid tuple literal for %s: component %d is not of type %s", r.Name, i,
				r.Type.Elems[i])
		}
	}
	return nil
}

// parenthesized returns the term in (term) if the parentheses do not form a tuple. Otherwise, it returns nil. As in
// Cassandra, only the receiver's type distinguishes a tuple of one element from a parenthesized term outside a SELECT
// clause.
func parenthesized(t *parser.TupleLiteral, to *cqltype.Type) parser.Term {
	if len(t.Elems) != 1 || to.Kind == cqltype.Tuple || to.Kind == cqltype.UDT {
		return nil
	}
	return t.Elems[0]
}

func (b *binder) bindTuple(t *parser.TupleLiteral, r Receiver) (Term, error) {
	if inner := parenthesized(t, r.Type); inner != nil {
		return b.bind(inner, r)
	}
	if err := b.checkTuple(t, r); err != nil {
		return nil, err
	}
	elems, err := b.bindAll(t.Elems, func(i int) Receiver {
		return Receiver{Name: r.Name + "[" + itoa(i) + "]", Type: r.Type.Elems[i]}
	})
	if err != nil {
		return nil, err
	}
	return b.bindComposite(r, elems)
}
