// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// BindGroup binds a function of GROUP BY: one that is no aggregate, and never falls as the column in it rises, so that
// the rows of a group lie side by side.
func BindGroup(t parser.Term, scope Scope, env *Env) (Term, error) {
	b := &binder{env: env, scope: scope}
	f, err := b.selectedFunction(t)
	switch {
	case err != nil:
		return nil, err
	case f.state != nil:
		return nil, dberr.Invalidf("Aggregate functions are not supported within the GROUP BY clause, got: %s",
			f.qualified())
	case !f.monotonic:
		return nil, dberr.Invalidf("Only monotonic functions are supported in the GROUP BY clause. Got: %s ",
			f.signature())
	}
	for _, a := range argsOf(t) {
		switch a.(type) {
		case *parser.FunctionCall, *parser.Arithmetic, *parser.Negate:
			if _, err := BindGroup(a, scope, env); err != nil {
				return nil, err
			}
		}
	}
	return b.selector(t, nil)
}

// ColumnsIn lists the columns that a term names, in its order.
func ColumnsIn(t parser.Term) []parser.Ident {
	switch t := t.(type) {
	case *parser.Column:
		return []parser.Ident{t.Name}
	case *parser.Paren:
		return ColumnsIn(t.Term)
	case *parser.TypeHint:
		return ColumnsIn(t.Term)
	}
	var names []parser.Ident
	for _, a := range argsOf(t) {
		names = append(names, ColumnsIn(a)...)
	}
	return names
}
