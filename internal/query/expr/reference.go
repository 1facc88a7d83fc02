// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// References resolves what a statement of a transaction refers to outside of its SELECT clauses: name.column, read
// before. Whoever implements it fills the slots that it gave out in Bindings.References. It may be asked more than once
// for the same thing and then gives the same slot.
type References interface {
	Reference(name, column parser.Ident) (slot int, t *cqltype.Type, err error)
}

// reference is the value of a slot of References.
type reference struct {
	typ   *cqltype.Type
	index int
}

func (r *reference) Type() *cqltype.Type { return r.typ }

func (r *reference) Eval(b *Bindings) ([]byte, State, error) {
	v := b.References[r.index]
	return v, stateOf(v), nil
}

// reference resolves a reference; nil if t is none, or there is nothing here to refer to.
func (b *binder) reference(t parser.Term) (*reference, error) {
	f, ok := t.(*parser.Field)
	if !ok || b.scope != nil || b.env.References == nil {
		return nil, nil
	}
	of, ok := f.Term.(*parser.Column)
	if !ok {
		return nil, nil
	}
	i, typ, err := b.env.References.Reference(of.Name, f.Name)
	if err != nil {
		return nil, err
	}
	return &reference{typ, i}, nil
}

// bindReference binds a reference for a receiver, or refuses any other term.
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

// TypeOf returns the type of a term that is known without knowing what the term is for, nil if it is not.
func TypeOf(t parser.Term, env *Env) *cqltype.Type { return (&binder{env: env}).exactType(t) }
