// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// functions returns the user-defined functions of a schema.
func (e *Engine) functions(s *schema.Schema) *expr.Functions {
	return expr.FunctionsOf(e.opts.Functions, s)
}

func (e *Engine) env(s *schema.Schema, ks *schema.Keyspace, t *schema.Table, markers int) *expr.Env {
	env := expr.NewEnv(e.opts.Release, ks, t, markers)
	env.Functions = e.functions(s)
	return env
}

// requireFunctions records the functions that a statement calls and the permissions that the functions require.
func (st *statement) requireFunctions(called expr.Calls) {
	st.functions = called
	for _, f := range called.Terms {
		st.required = append(st.required, requiredPermission{access.Execute,
			access.OfFunction(f.Keyspace, f.Name, f.ArgTypes())})
	}
}
