// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Scope resolves the column references of a SELECT clause. The implementation assigns slots and stores the values of
// the slots in Bindings.Row. Repeated calls with the same arguments return the same slot.
type Scope interface {
	// Column returns the slot and the type of a column.
	Column(name parser.Ident) (slot int, t *cqltype.Type, err error)
	// CellMeta returns the slot and the type of writetime(name), maxwritetime(name), or ttl(name).
	CellMeta(kind parser.CellMetaKind, name parser.Ident) (slot int, t *cqltype.Type, err error)
	// CellMetas returns the slot of the times of a column's cells. The slot is used for selections of parts.
	CellMetas(kind parser.CellMetaKind, name parser.Ident) (CellMetas, error)
}

// BindSelector binds a term of a SELECT clause. It appends aggregate calls to env.Aggregates. The bound term reads the
// results of these calls from Bindings.Aggregates.
func BindSelector(t parser.Term, scope Scope, env *Env) (Term, error) {
	return (&binder{inference: inference{env: env, scope: scope}}).selector(t, nil)
}

// SelectorName returns Cassandra's column name for a selector without an alias, such as system.token(k) or cast(a as
// text).
func SelectorName(t parser.Term, scope Scope, env *Env) string {
	return (&printer{types: &inference{env: env, scope: scope}, keyspace: env.keyspaceName()}).text(t)
}

// slot is a term that returns a column of the current row, or the write time or TTL of a column.
type slot struct {
	typ   *cqltype.Type
	index int
}

// SlotIndex returns the slot of a term that is a column.
func SlotIndex(t Term) (index int, ok bool) {
	if s, is := t.(*slot); is {
		return s.index, true
	}
	return 0, false
}

func (s *slot) Type() *cqltype.Type { return s.typ }

func (s *slot) Eval(b *Bindings) ([]byte, State, error) {
	v := b.Row[s.index]
	return v, stateOf(v), nil
}

// selector binds a term of a SELECT clause. expected is the required type, or nil for any type.
func (b *binder) selector(t parser.Term, expected *cqltype.Type) (Term, error) {
	switch t := t.(type) {
	case *parser.Column:
		i, typ, err := b.scope.Column(t.Name)
		if err != nil {
			return nil, err
		}
		return &slot{typ, i}, nil
	case *parser.CellMeta:
		return b.cellMeta(t)
	case *parser.Paren:
		return b.selector(t.Term, expected)
	case *parser.FunctionCall, *parser.Arithmetic, *parser.Negate, *parser.CountRows:
		return b.selectCall(t)
	case *parser.Cast:
		return b.bindCast(t)
	case *parser.Field:
		return b.selectField(t)
	case *parser.Element:
		return b.selectElement(t)
	case *parser.Slice:
		return b.selectSlice(t)
	case *parser.TypeHint:
		hint, err := b.env.ResolveType(t.Type)
		if err != nil {
			return nil, err
		}
		if hint, err = b.frozenHint(t, hint); err != nil {
			return nil, err
		}
		of, err := b.selector(t.Term, hint)
		if err != nil || of.Type().Equal(hint) {
			return of, err
		}
		return &hinted{of, hint}, nil
	}
	typ := b.exactType(t)
	if typ == nil {
		typ = expected
	}
	if typ == nil {
		return nil, dberr.Invalidf("Cannot infer type for term %s in selection clause (try using a cast to force a type)", Text(t))
	}
	return b.bind(t, Receiver{Name: "[selection]", Type: typ})
}

// frozenHint returns the type of a term with a type hint in a SELECT clause. The returned type is frozen, so it never
// equals the type of a multi-cell column.
func (b *binder) frozenHint(t *parser.TypeHint, hint *cqltype.Type) (*cqltype.Type, error) {
	if hint.IsCollection() && !hint.Frozen {
		for _, e := range hint.Elems {
			if e.MultiCell() && e.IsCollection() {
				return nil, dberr.Invalidf("Non-frozen collections are not allowed inside collections: %s",
					typeText(t.Type, ""))
			}
		}
	}
	hint = hint.Freeze()
	of := b.exactType(t.Term)
	if b.fit(t.Term, hint) == cqltype.NoFit || of != nil && of.MultiCell() && hint.Frozen && isStored(t.Term) {
		name := (&printer{types: &b.inference, keyspace: b.env.keyspaceName()}).text(t)
		return nil, dberr.Invalidf("Cannot assign value %s to %s of type %s", name, name, hint)
	}
	return hint, nil
}

// isStored reports whether a term is a column or an unmodified part of a column.
func isStored(t parser.Term) bool {
	switch t := t.(type) {
	case *parser.Column, *parser.FunctionCall, *parser.Slice:
		return true
	case *parser.Paren:
		return isStored(t.Term)
	}
	return false
}

// hinted is a term whose type is replaced by a compatible type.
type hinted struct {
	Term
	typ *cqltype.Type
}

func (h *hinted) Type() *cqltype.Type { return h.typ }

// selectCall binds a call of a function, an operator, or an aggregate.
func (b *binder) selectCall(t parser.Term) (Term, error) {
	f, err := b.selectedFunction(t)
	if err != nil {
		return nil, err
	}
	if f, err = b.compile(f); err != nil {
		return nil, err
	}
	terms := argsOf(t)
	if f.state == nil {
		args, err := b.selectArgs(f, terms)
		if err != nil {
			return nil, err
		}
		return b.newCall(f, args)
	}
	if b.inAggregate {
		return nil, dberr.Invalidf("aggregate functions cannot be used as arguments of aggregate functions")
	}
	if f == countRows {
		terms = nil
	}
	b.inAggregate = true
	args, err := b.selectArgs(f, terms)
	b.inAggregate = false
	if err != nil {
		return nil, err
	}
	b.env.Aggregates = append(b.env.Aggregates, &Aggregate{fn: f, args: args})
	return &aggregateResult{f.result, len(b.env.Aggregates) - 1}, nil
}

func (b *binder) selectedFunction(t parser.Term) (*function, error) {
	if isCountRows(t) {
		return countRows, nil
	}
	if c, ok := t.(*parser.FunctionCall); ok {
		// Errors in the arguments, such as an unknown column or function, take precedence.
		for _, a := range c.Args {
			if err := b.checkInside(a); err != nil {
				return nil, err
			}
		}
	}
	f, err := b.resolveCall(t, nil)
	if err == nil && f == nil {
		c := t.(*parser.FunctionCall)
		return nil, dberr.Invalidf("Unknown function '%s'", (&printer{}).functionName(c))
	}
	return f, err
}

// checkInside returns the error that a column or a call causes regardless of its context.
func (b *binder) checkInside(t parser.Term) error {
	switch t := t.(type) {
	case *parser.Column:
		_, _, err := b.scope.Column(t.Name)
		return err
	case *parser.FunctionCall, *parser.Arithmetic, *parser.Negate:
		if _, sound := b.sound[t]; sound {
			return nil
		}
		for _, a := range argsOf(t) {
			if err := b.checkInside(a); err != nil {
				return err
			}
		}
		if _, err := b.selectedFunction(t); err != nil {
			return err
		}
		remember(&b.sound, t, struct{}{})
	}
	return nil
}

// isCountRows reports whether a term is count(*) or count(1), which are equivalent.
func isCountRows(t parser.Term) bool {
	switch t := t.(type) {
	case *parser.CountRows:
		return true
	case *parser.FunctionCall:
		if t.Name.Name.Name != "count" || len(t.Args) != 1 {
			return false
		}
		c, ok := t.Args[0].(*parser.Constant)
		return ok && c.Kind == parser.IntegerConstant && c.Text == "1"
	}
	return false
}

func (b *binder) selectArgs(f *function, terms []parser.Term) ([]Term, error) {
	args := make([]Term, len(terms))
	for i, t := range terms {
		a, err := b.selector(t, f.args[i])
		if err != nil {
			return nil, err
		}
		args[i] = a
	}
	return args, nil
}

func (b *binder) selectField(t *parser.Field) (Term, error) {
	of, err := b.selector(t.Term, nil)
	if err != nil {
		return nil, err
	}
	u := of.Type()
	if u.Kind != cqltype.UDT {
		return nil, dberr.Invalidf("Invalid field selection: %s of type %s is not a user type", Text(t.Term), u)
	}
	i := u.FieldIndex(t.Name.Name)
	if i < 0 {
		return nil, dberr.Invalidf("%s of type %s has no field %s", Text(t.Term), u, t.Name.Name)
	}
	return &fieldTerm{of, i}, nil
}

// collectionFor binds the collection of an element or slice selection.
func (b *binder) collectionFor(t parser.Term, what string) (Term, Receiver, error) {
	of, err := b.selector(t, nil)
	if err != nil {
		return nil, Receiver{}, err
	}
	typ := of.Type()
	if !typ.IsCollection() {
		return nil, Receiver{}, dberr.Invalidf("Invalid %s selection: %s is of type %s is not a collection",
			strings.ToLower(what), Text(t), typ)
	}
	if typ.Kind == cqltype.List {
		return nil, Receiver{}, dberr.Invalidf("%s selection is only allowed on sets and maps, but %s is a list", what,
			Text(t))
	}
	return of, Receiver{Name: Text(t), Type: typ}.Key(), nil
}

// bindKey binds a key in brackets. The names of markers are derived from the collection instead of the selection.
func (b *binder) bindKey(t parser.Term, r Receiver) (Term, error) {
	if m, ok := t.(*parser.Marker); ok {
		return b.env.declare(m, r)
	}
	return b.bind(t, r)
}

func (b *binder) selectElement(t *parser.Element) (Term, error) {
	of, key, err := b.collectionFor(t.Term, "Element")
	if err != nil {
		return nil, err
	}
	k, err := b.bindKey(t.Key, key)
	if err != nil {
		return nil, err
	}
	return &elementTerm{of, k, Text(t.Term)}, nil
}

func (b *binder) selectSlice(t *parser.Slice) (Term, error) {
	of, key, err := b.collectionFor(t.Term, "Slice")
	if err != nil {
		return nil, err
	}
	s := &sliceTerm{of: of, name: Text(t.Term)}
	if t.From != nil {
		if s.from, err = b.bindKey(t.From, key); err != nil {
			return nil, err
		}
	}
	if t.To != nil {
		if s.to, err = b.bindKey(t.To, key); err != nil {
			return nil, err
		}
	}
	return s, nil
}

type fieldTerm struct {
	of    Term
	index int
}

func (f *fieldTerm) Type() *cqltype.Type { return f.of.Type().Elems[f.index] }

func (f *fieldTerm) Eval(b *Bindings) ([]byte, State, error) {
	v, state, err := f.of.Eval(b)
	if err == nil {
		err = b.Meter.Step(1 + f.index)
	}
	if err != nil || state != Value {
		return nil, Null, err
	}
	e := f.of.Type().Element(v, f.index)
	return e, stateOf(e), nil
}

type elementTerm struct {
	of, key Term
	name    string
}

func (e *elementTerm) Type() *cqltype.Type {
	elems := e.of.Type().Elems
	return elems[len(elems)-1]
}

func (e *elementTerm) Eval(b *Bindings) ([]byte, State, error) {
	k, state, err := e.key.Eval(b)
	if err != nil {
		return nil, Null, err
	}
	if state != Value {
		return nil, Null, dberr.Invalidf("Invalid %s value for element selection on %s", stateName(state), e.name)
	}
	c, state, err := e.of.Eval(b)
	if err != nil || state != Value {
		return nil, Null, err
	}
	if err := b.Meter.Step(1 + len(c)/stepBytes); err != nil {
		return nil, Null, err
	}
	v, _ := e.of.Type().Lookup(c, k)
	return v, stateOf(v), nil
}

func stateName(s State) string {
	if s == Unset {
		return "unset"
	}
	return "null"
}

// sliceTerm selects the elements of a set or the entries of a map between two keys. The range includes both keys.
type sliceTerm struct {
	of, from, to Term // from and to may be nil
	name         string
}

func (s *sliceTerm) Type() *cqltype.Type { return s.of.Type() }

func (s *sliceTerm) end(t Term, b *Bindings) ([]byte, error) {
	if t == nil {
		return nil, nil
	}
	v, state, err := t.Eval(b)
	if err == nil && state != Value {
		err = dberr.Invalidf("Invalid %s value for slice selection on %s", stateName(state), s.name)
	}
	return v, err
}

// partBytes is the estimated memory of an element in a growing list of elements.
const partBytes = 72

func (s *sliceTerm) Eval(b *Bindings) ([]byte, State, error) {
	from, err := s.end(s.from, b)
	if err != nil {
		return nil, Null, err
	}
	to, err := s.end(s.to, b)
	if err != nil {
		return nil, Null, err
	}
	c, state, err := s.of.Eval(b)
	if err != nil || state != Value {
		return nil, Null, err
	}
	t := s.of.Type()
	if err := b.charge(2*len(c) + partBytes*t.Count(c)); err != nil {
		return nil, Null, err
	}
	inside := func(k []byte) bool {
		return (s.from == nil || t.Elems[0].Compare(k, from) >= 0) && (s.to == nil || t.Elems[0].Compare(k, to) <= 0)
	}
	var parts [][]byte
	if t.Kind == cqltype.Map {
		for k, v := range t.Entries(c) {
			if inside(k) {
				parts = append(parts, k, v)
			}
		}
	} else {
		for _, e := range t.Elements(c) {
			if inside(e) {
				parts = append(parts, e)
			}
		}
	}
	if len(parts) == 0 && t.MultiCell() {
		return nil, Null, nil
	}
	return t.AppendCollection(nil, parts...), Value, nil
}
