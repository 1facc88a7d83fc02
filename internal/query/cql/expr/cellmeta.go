// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// cellMeta binds writetime(x), maxwritetime(x), or ttl(x). If x is an element, a slice, or a field of a multi-cell
// column, the result contains the times of the cells of x. For a part of a cell, the result is the time of the cell. A
// frozen column has a single cell, so all existing parts have the same time.
func (b *binder) cellMeta(t *parser.CellMeta) (Term, error) {
	if c, ok := t.Arg.(*parser.Column); ok {
		i, typ, err := b.scope.CellMeta(t.Kind, c.Name)
		if err != nil {
			return nil, err
		}
		return &slot{typ, i}, nil
	}
	column, part := partOf(t.Arg)
	m, err := b.scope.CellMetas(t.Kind, column.Name)
	if err != nil {
		return nil, err
	}
	if _, err := b.within(column.Name, 0, m.Column).selector(t.Arg, nil); err != nil {
		return nil, err
	}
	if !m.Column.MultiCell() {
		of := &slot{m.Type, m.Slot}
		if _, ok := part.(*parser.Field); ok {
			return of, nil
		}
		value, err := b.selector(part, nil)
		return &whereThere{value, of}, err
	}
	of, err := b.within(column.Name, m.Slot, m.Type).selector(part, nil)
	if _, ok := part.(*parser.Slice); !ok || err != nil {
		return of, err
	}
	times := m.Type.Elems[1]
	if t.Kind == parser.MaxWriteTime {
		return &latest{of, times}, nil
	}
	return &allOf{of, cqltype.ListOf(times)}, nil
}

// CellMetas describes the slot that contains the times of a column's cells.
type CellMetas struct {
	// Slot is the slot of the times, and Type is the type of the slot. For a multi-cell map or set, the slot contains a
	// map from keys to times. For a user-defined type, the slot contains a user-defined type whose fields are times.
	// For a list, the slot contains a list of times. Otherwise, the slot contains the time of the single cell.
	Slot int
	Type *cqltype.Type
	// Column is the type of the column.
	Column *cqltype.Type
}

// TimesOf returns the type of CellMetas.Slot for a multi-cell column. time is the type of a single time.
func TimesOf(column, time *cqltype.Type) *cqltype.Type {
	switch column.Kind {
	case cqltype.UDT:
		times := make([]*cqltype.Type, len(column.Elems))
		for i := range times {
			times[i] = time
		}
		return cqltype.UDTOf(column.Keyspace, column.Name, column.Fields, times)
	case cqltype.List:
		return cqltype.ListOf(time)
	}
	return cqltype.MapOf(column.Elems[0], time)
}

// partOf returns the column of a selection and the first selected part.
func partOf(t parser.Term) (column *parser.Column, part parser.Term) {
	for {
		var of parser.Term
		switch s := t.(type) {
		case *parser.Field:
			of = s.Term
		case *parser.Element:
			of = s.Term
		case *parser.Slice:
			of = s.Term
		}
		if c, ok := of.(*parser.Column); ok {
			return c, t
		}
		t = of
	}
}

// within returns a binder in which the column has the given slot and type.
func (b *binder) within(column parser.Ident, slot int, t *cqltype.Type) *binder {
	in := inference{env: b.env, scope: standIn{b.scope, column.Name, slot, t}}
	return &binder{inference: in, inAggregate: b.inAggregate}
}

// standIn is a scope in which one column is replaced.
type standIn struct {
	Scope
	column string
	slot   int
	typ    *cqltype.Type
}

// Column implements Scope.
func (s standIn) Column(name parser.Ident) (int, *cqltype.Type, error) {
	if name.Name == s.column {
		return s.slot, s.typ, nil
	}
	return s.Scope.Column(name)
}

// whereThere evaluates to of. If value is null or an empty collection, whereThere evaluates to null.
type whereThere struct{ value, of Term }

func (w *whereThere) Type() *cqltype.Type { return w.of.Type() }

func (w *whereThere) Eval(b *Bindings) ([]byte, State, error) {
	v, state, err := w.value.Eval(b)
	if t := w.value.Type(); err != nil || state != Value || t.IsCollection() && t.Count(v) == 0 {
		return nil, Null, err
	}
	return w.of.Eval(b)
}

// allOf evaluates to the list of a map's values.
type allOf struct {
	of  Term
	typ *cqltype.Type
}

func (a *allOf) Type() *cqltype.Type { return a.typ }

func (a *allOf) Eval(b *Bindings) ([]byte, State, error) {
	v, state, err := a.of.Eval(b)
	if err != nil || state != Value {
		return nil, Null, err
	}
	var times [][]byte
	for _, t := range a.of.Type().Entries(v) {
		times = append(times, t)
	}
	return a.typ.AppendCollection(nil, times...), Value, nil
}

// latest evaluates to the greatest value of a map of bigints.
type latest struct {
	of  Term
	typ *cqltype.Type
}

func (l *latest) Type() *cqltype.Type { return l.typ }

func (l *latest) Eval(b *Bindings) ([]byte, State, error) {
	v, state, err := l.of.Eval(b)
	if err != nil || state != Value {
		return nil, Null, err
	}
	var newest []byte
	for _, t := range l.of.Type().Entries(v) {
		if newest == nil || int64(binary.BigEndian.Uint64(t)) > int64(binary.BigEndian.Uint64(newest)) {
			newest = t
		}
	}
	return newest, stateOf(newest), nil
}
