// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// Variable is what is known of a bind marker: what PREPARED tells the client.
type Variable struct {
	Keyspace, Table, Name string
	Type                  *cqltype.Type
}

// Receiver is what a term is bound for: the column it is compared with or written to, an element of it, or an argument
// of a function. Name is for error texts and for unnamed markers.
type Receiver struct {
	Name string
	Type *cqltype.Type
	// In marks the list of IN ?: a bound one may hold nulls, which are for the clause to judge.
	In bool
}

// FindColumn finds a column of a table by its name. The error is *dberr.Invalid.
func FindColumn(table *schema.Table, name parser.Ident) (*schema.Column, error) {
	if c := table.ByName[name.Name]; c != nil {
		return c, nil
	}
	return nil, dberr.Invalidf("Undefined column name %s in table %s.%s", cqltype.QuoteName(name.Name), table.Keyspace,
		table.Name)
}

// ForColumn is the receiver of a column.
func ForColumn(c *schema.Column) Receiver { return Receiver{Name: c.Name, Type: c.Type} }

// Values is the receiver of IN ? on what r receives: a list named in(name).
func (r Receiver) Values() Receiver {
	list := *cqltype.ListOf(r.Type.Freeze())
	list.Frozen = true
	return Receiver{"in(" + r.Name + ")", &list, true}
}

// Element is the receiver of one element of the collection that r receives: value(name) of a list, set or map.
func (r Receiver) Element() Receiver {
	return Receiver{Name: "value(" + r.Name + ")", Type: r.Type.Elems[len(r.Type.Elems)-1]}
}

// Key is the receiver of what stands between the brackets: key(name) of a map, idx(name) of a list, and for a set the
// element itself as value(name).
func (r Receiver) Key() Receiver {
	switch r.Type.Kind {
	case cqltype.Map:
		return Receiver{Name: "key(" + r.Name + ")", Type: r.Type.Elems[0]}
	case cqltype.Set:
		return r.Element()
	}
	return Receiver{Name: "idx(" + r.Name + ")", Type: cqltype.Native(cqltype.Int)}
}

// Field is the receiver of field i of the UDT that r receives.
func (r Receiver) Field(i int) Receiver {
	return Receiver{Name: r.Name + "." + r.Type.Fields[i], Type: r.Type.Elems[i]}
}

// Env is where the terms of one statement are bound. It is used by one goroutine while the statement is prepared.
type Env struct {
	// Release is whose answers are given.
	Release *compat.Release
	// Keyspace is that of the statement's table: user-defined types are looked up in it. Nil if there is none.
	Keyspace *schema.Keyspace
	// Table is the statement's table, for token() and the texts; nil if there is none.
	Table *schema.Table
	// References says what names with a dot stand for outside of SELECT clauses; nil: nothing.
	References References
	// Functions is where user-defined functions are found; nil: there are none.
	Functions Functions
	// Aggregates are the aggregate calls that BindSelector met, in order.
	Aggregates []*Aggregate

	vars  *[]Variable
	calls *Calls
}

// NewEnv makes an environment for a statement with that many bind markers.
func NewEnv(rel *compat.Release, ks *schema.Keyspace, table *schema.Table, markers int) *Env {
	vars := make([]Variable, markers)
	return &Env{Release: rel, Keyspace: ks, Table: table, vars: &vars, calls: &Calls{}}
}

// For is an environment for another statement of the same batch or transaction: it shares the bind markers and what may
// be referred to.
func (e *Env) For(ks *schema.Keyspace, table *schema.Table) *Env {
	return &Env{Release: e.Release, Keyspace: ks, Table: table, References: e.References,
		Functions: e.Functions, vars: e.vars, calls: e.calls}
}

// Variables describes the bind markers that have been bound so far, by index. A marker that no term used has a nil
// Type.
func (e *Env) Variables() []Variable { return *e.vars }

// declare records what a marker stands for and makes its term.
func (e *Env) declare(m *parser.Marker, r Receiver) (Term, error) {
	name := m.Name
	if name == "" {
		name = r.Name
	}
	for len(*e.vars) <= m.Index {
		*e.vars = append(*e.vars, Variable{})
	}
	v := Variable{Name: name, Type: r.Type}
	if e.Table != nil {
		v.Keyspace, v.Table = e.Table.Keyspace, e.Table.Name
	} else if e.Keyspace != nil {
		v.Keyspace = e.Keyspace.Name
	}
	(*e.vars)[m.Index] = v
	t := newMarker(m.Index, r.Type)
	t.nullElements = r.In
	return t, nil
}

func (e *Env) keyspaceName() string {
	switch {
	case e.Table != nil:
		return e.Table.Keyspace
	case e.Keyspace != nil:
		return e.Keyspace.Name
	}
	return ""
}

// ResolveType finds the type that a name stands for. Collections and UDTs are not frozen unless the name says so.
func (e *Env) ResolveType(n *parser.TypeName) (*cqltype.Type, error) {
	t, err := e.resolve(n)
	if err != nil {
		return nil, err
	}
	if n.Frozen {
		t = t.Freeze()
	}
	return t, nil
}

func (e *Env) resolve(n *parser.TypeName) (*cqltype.Type, error) {
	params := make([]*cqltype.Type, len(n.Params))
	for i, p := range n.Params {
		t, err := e.ResolveType(p)
		if err != nil {
			return nil, err
		}
		params[i] = t
	}
	switch n.Kind {
	case parser.NativeType:
		if t := cqltype.ByName(n.Name); t != nil {
			return t, nil
		}
	case parser.ListType:
		return cqltype.ListOf(params[0]), nil
	case parser.SetType:
		return cqltype.SetOf(params[0]), nil
	case parser.MapType:
		return cqltype.MapOf(params[0], params[1]), nil
	case parser.TupleType:
		return cqltype.TupleOf(params...), nil
	case parser.CustomType:
		return cqltype.CustomOf(n.Name), nil
	case parser.UserType:
		if ks := n.User.Keyspace.Name; ks != "" && ks != e.keyspaceName() {
			return nil, dberr.Invalidf("Statement on keyspace %s cannot refer to a user type in keyspace %s; user "+
				"types can only be used in the keyspace they are defined in",
				e.keyspaceName(), ks)
		}
		if e.Keyspace != nil {
			if t := e.Keyspace.Types[n.User.Name.Name]; t != nil {
				return t, nil
			}
		}
		return nil, dberr.Invalidf("Unknown type %s.%s", e.keyspaceName(), n.User.Name.Name)
	case parser.VectorType:
		if n.Dimension < 1 {
			return nil, dberr.Invalidf("vectors may only have positive dimensions; given %d", n.Dimension)
		}
		return cqltype.VectorOf(params[0], n.Dimension), nil
	}
	return nil, dberr.Invalidf("Unknown type %s", n.Name)
}
