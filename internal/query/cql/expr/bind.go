// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"strconv"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Bind binds a term of a WHERE, VALUES, or SET clause for a receiver. If a constant function call fails, the error is a
// *dberr.FunctionFailure. Other errors are *dberr.Invalid with Cassandra's error texts.
func Bind(t parser.Term, r Receiver, env *Env) (Term, error) {
	return (&binder{inference: inference{env: env}}).bind(t, r)
}

func (b *binder) bind(t parser.Term, r Receiver) (Term, error) {
	switch t := t.(type) {
	case *parser.Constant:
		return bindConstant(t, r)
	case *parser.Null:
		if r.Type.Kind == cqltype.Counter {
			return nil, dberr.Invalidf("Invalid null value for counter increment/decrement")
		}
		return &constant{r.Type, nil}, nil
	case *parser.Marker:
		if b.scope != nil {
			r.Name = "[selection]"
		}
		return b.env.declare(t, r)
	case *parser.TypeHint:
		return b.bindHint(t, r)
	case *parser.FunctionCall, *parser.Arithmetic, *parser.Negate:
		return b.bindCall(t, r)
	case *parser.ListLiteral:
		return b.bindList(t, r)
	case *parser.SetLiteral:
		return b.bindSet(t, r)
	case *parser.MapLiteral:
		return b.bindMap(t, r)
	case *parser.UDTLiteral:
		return b.bindUDT(t, r)
	case *parser.TupleLiteral:
		return b.bindTuple(t, r)
	case *parser.Paren:
		return b.bind(t.Term, r)
	}
	if b.scope != nil {
		return b.selector(t, r.Type)
	}
	if c, ok := t.(*parser.Cast); ok {
		return b.bindCastFor(c, r)
	}
	return b.bindReference(t, r)
}

func bindConstant(t *parser.Constant, r Receiver) (Term, error) {
	v, err := r.Type.FromConstant(constantKinds[t.Kind], t.Text)
	if mismatch, ok := errors.AsType[*cqltype.ConstantError](err); ok {
		return nil, dberr.Invalidf("Invalid %s constant (%s) for \"%s\" of type %s", mismatch.Constant, mismatch.Text,
			r.Name, r.Type)
	}
	if err != nil {
		return nil, err
	}
	return &constant{r.Type, v}, nil
}

// bindHint binds (type)term. The hint selects an interpretation of the term, but the term is bound for the receiver.
func (b *binder) bindHint(t *parser.TypeHint, r Receiver) (Term, error) {
	hint, err := b.env.ResolveType(t.Type)
	if err != nil {
		return nil, err
	}
	if b.fit(t.Term, hint) == cqltype.NoFit {
		return nil, dberr.Invalidf("Cannot cast value %s to type %s", b.message(t.Term),
			typeText(t.Type, b.env.keyspaceName()))
	}
	if assign(r.Type, hint) == cqltype.NoFit {
		return nil, dberr.Invalidf("Cannot assign value %s to %s of type %s", b.message(t), r.Name, r.Type)
	}
	return b.bind(t.Term, r)
}

func itoa(i int) string { return strconv.Itoa(i) }
