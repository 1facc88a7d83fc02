// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// Bind binds a term of a WHERE, VALUES or SET clause for a receiver. Errors are *dberr.Invalid with Cassandra's texts, or
// *dberr.FunctionFailure when a constant function call fails.
func Bind(t parser.Term, r Receiver, env *Env) (Term, error) {
	return (&binder{env: env}).bind(t, r)
}

// Scope resolves what a selection refers to in the row at hand. Whoever reads rows implements it, and fills the slots it gave
// out in Bindings.Row.
type Scope interface {
	// Column returns the slot and the type of a column.
	Column(name parser.Ident) (slot int, t *cqltype.Type, err error)
	// CellMeta returns the slot and the type of writetime(arg), maxwritetime(arg) or ttl(arg).
	CellMeta(kind parser.CellMetaKind, arg parser.Term) (slot int, t *cqltype.Type, err error)
}

// BindSelector binds a term of a SELECT clause. Aggregate calls are added to env.Aggregates, and their results are taken from
// Bindings.Aggregates.
func BindSelector(t parser.Term, scope Scope, env *Env) (Term, error) {
	return (&binder{env: env, scope: scope}).selector(t, nil)
}

// SelectorName is the name that Cassandra gives to the column of a selector without alias, such as system.token(k) or
// cast(a as text). The scope is needed for casts to a column's own type, which have the column's name.
func SelectorName(t parser.Term, scope Scope, env *Env) string {
	return (&binder{env: env, scope: scope}).name(t)
}

func pending() error { return dberr.Serverf("not yet") }
