// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Column describes a bind marker or a result column in PREPARED and ROWS responses.
type Column struct {
	Keyspace, Table, Name string
	Type                  *cqltype.Type
}

// Receiver is the target of a term. It is a column, an element of a column, or a function argument. Error texts and the
// descriptions of unnamed markers contain Name.
type Receiver struct {
	Name string
	Type *cqltype.Type
	// In reports whether the term is the list of IN ?. The list may contain nulls. The IN clause validates the nulls.
	In bool
}

// FindColumn finds a column of a table by its name. The error is a *dberr.Invalid.
func FindColumn(table *schema.Table, name parser.Ident) (*schema.Column, error) {
	if c := table.ByName[name.Name]; c != nil {
		return c, nil
	}
	return nil, dberr.Invalidf("Undefined column name %s in table %s.%s", cqltype.QuoteName(name.Name), table.Keyspace,
		table.Name)
}

// ForColumn returns the receiver of a column.
func ForColumn(c *schema.Column) Receiver { return Receiver{Name: c.Name, Type: c.Type} }

// Values returns the receiver for IN ?. The receiver is a list with the name in(name).
func (r Receiver) Values() Receiver {
	list := *cqltype.ListOf(r.Type.Freeze())
	list.Frozen = true
	return Receiver{"in(" + r.Name + ")", &list, true}
}

// Element returns the receiver for an element of the collection r. The receiver has the name value(name).
func (r Receiver) Element() Receiver {
	return Receiver{Name: "value(" + r.Name + ")", Type: r.Type.Elems[len(r.Type.Elems)-1]}
}

// Key returns the receiver for a key in brackets. Its name is key(name) for a map, idx(name) for a list, and
// value(name) for a set. In a set, the key is the element.
func (r Receiver) Key() Receiver {
	switch r.Type.Kind {
	case cqltype.Map:
		return Receiver{Name: "key(" + r.Name + ")", Type: r.Type.Elems[0]}
	case cqltype.Set:
		return r.Element()
	}
	return Receiver{Name: "idx(" + r.Name + ")", Type: cqltype.Native(cqltype.Int)}
}

// Field returns the receiver for field i of the user-defined type r.
func (r Receiver) Field(i int) Receiver {
	return Receiver{Name: r.Name + "." + r.Type.Fields[i], Type: r.Type.Elems[i]}
}

// Env is the environment for binding the terms of one statement. It is not safe for concurrent use.
type Env struct {
	// Release is the Cassandra release whose behavior the expressions implement.
	Release *compat.Release
	// Keyspace is the keyspace of the statement's table. User-defined types are looked up in Keyspace. Keyspace may be
	// nil.
	Keyspace *schema.Keyspace
	// Table is the statement's table. It is used for token() and in error texts. Table may be nil.
	Table *schema.Table
	// References resolves names with a dot outside SELECT clauses. References may be nil.
	References References
	// Functions resolves user-defined functions. Functions may be nil.
	Functions *Functions
	// Aggregates holds the aggregate calls in the order in which BindSelector has bound them.
	Aggregates []*Aggregate

	vars  *[]Column
	calls *Calls
}

// NewEnv returns an environment for a statement with the given number of bind markers.
func NewEnv(rel *compat.Release, ks *schema.Keyspace, table *schema.Table, markers int) *Env {
	vars := make([]Column, markers)
	return &Env{Release: rel, Keyspace: ks, Table: table, vars: &vars, calls: &Calls{}}
}

// For returns an environment for another statement of the same batch or transaction. The environments share the bind
// markers and the references.
func (e *Env) For(ks *schema.Keyspace, table *schema.Table) *Env {
	return &Env{Release: e.Release, Keyspace: ks, Table: table, References: e.References,
		Functions: e.Functions, vars: e.vars, calls: e.calls}
}

// Variables returns the descriptions of the bind markers by index. For an unused marker, Type is nil.
func (e *Env) Variables() []Column { return *e.vars }

// declare records the receiver of a marker. It returns the marker's term.
func (e *Env) declare(m *parser.Marker, r Receiver) (Term, error) {
	name := m.Name
	if name == "" {
		name = r.Name
	}
	for len(*e.vars) <= m.Index {
		*e.vars = append(*e.vars, Column{})
	}
	v := Column{Name: name, Type: r.Type}
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

// ResolveType resolves a type name. Collections and user-defined types are frozen only if the name contains frozen.
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
