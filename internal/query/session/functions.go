// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// functions is where the terms of statements that are bound to a schema find functions.
func (e *Engine) functions(s *schema.Schema) expr.Functions {
	return expr.FunctionsOf(e.opts.Functions, s)
}

// env is where a statement on a table is bound.
func (e *Engine) env(s *schema.Schema, ks *schema.Keyspace, t *schema.Table, markers int) *expr.Env {
	env := expr.NewEnv(e.opts.Release, ks, t, markers)
	env.Functions = e.functions(s)
	return env
}

// needsFunctions notes the functions that a statement calls, and what calling them takes.
func (st *statement) requireFunctions(called expr.Calls) {
	st.functions = called
	for _, f := range called.Terms {
		st.required = append(st.required, requiredPermission{access.Execute, access.OfFunction(f.Keyspace, f.Name, f.ArgTypes())})
	}
}
