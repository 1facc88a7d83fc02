// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// References resolves references of the form name.column in a transaction's statements. A reference refers to the
// result of an earlier read. References does not resolve references in SELECT clauses. The implementation assigns slots
// and stores the values of the slots in Bindings.References. Repeated calls with the same arguments return the same
// slot.
type References interface {
	Reference(name, column parser.Ident) (slot int, t *cqltype.Type, err error)
}

type reference struct {
	typ   *cqltype.Type
	index int
}

func (r *reference) Type() *cqltype.Type { return r.typ }

func (r *reference) Eval(b *Bindings) ([]byte, State, error) {
	v := b.References[r.index]
	return v, stateOf(v), nil
}

// reference resolves a reference. If t is not a reference or references are not available, it returns nil.
func (in *inference) reference(t parser.Term) (*reference, error) {
	f, ok := t.(*parser.Field)
	if !ok || in.scope != nil || in.env.References == nil {
		return nil, nil
	}
	of, ok := f.Term.(*parser.Column)
	if !ok {
		return nil, nil
	}
	i, typ, err := in.env.References.Reference(of.Name, f.Name)
	if err != nil {
		return nil, err
	}
	return &reference{typ, i}, nil
}

// bindReference binds a reference for a receiver. It rejects all other terms.
func (b *binder) bindReference(t parser.Term, r Receiver) (Term, error) {
	ref, err := b.reference(t)
	switch {
	case err != nil:
		return nil, err
	case ref == nil:
		return nil, dberr.Invalidf("%s is not allowed here", Text(t))
	case assign(r.Type, ref.typ) == cqltype.NoFit:
		return nil, dberr.Invalidf("Type error: %s of type %s cannot be assigned to %s of type %s", Text(t), ref.typ,
			r.Name, r.Type)
	}
	return ref, nil
}

// TypeOf returns the type of a term if the type does not depend on the term's receiver. Otherwise, it returns nil.
func TypeOf(t parser.Term, env *Env) *cqltype.Type { return (&inference{env: env}).exactType(t) }
