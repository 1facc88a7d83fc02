// SPDX-License-Identifier: Apache-2.0

package session

import (
	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/ddl"
	"github.com/ilion-db/ilion/internal/query/expr"
)

// Functions runs user-defined functions.
type Functions interface {
	ddl.Functions
	// Compile makes a function callable; see expr.Functions.
	Compile(f *schema.Function) (expr.Invoke, error)
}

// userFunctions are the functions of a schema. It implements expr.Functions.
type userFunctions struct {
	Functions
	snapshot *schema.Schema
}

// Keyspace implements expr.Functions.
func (u userFunctions) Keyspace(name string) *schema.Keyspace { return u.snapshot.Keyspace(name) }

// functions is where the terms of statements that are bound to a schema find functions.
func (e *Engine) functions(s *schema.Schema) expr.Functions {
	if e.opts.Functions == nil {
		return nil
	}
	return userFunctions{e.opts.Functions, s}
}

// env is where a statement on a table is bound.
func (e *Engine) env(s *schema.Schema, ks *schema.Keyspace, t *schema.Table, markers int) *expr.Env {
	env := expr.NewEnv(e.opts.Release, ks, t, markers)
	env.Functions = e.functions(s)
	return env
}

// needsFunctions notes the functions that a statement calls, and what calling them takes.
func (st *statement) needsFunctions(called []*schema.Function) {
	st.functions = called
	for _, f := range called {
		st.needs = append(st.needs, need{access.Execute, access.OfFunction(f.Keyspace, f.Name, f.ArgTypes())})
	}
}

// currentFunctions reports whether functions are those of a schema.
func currentFunctions(functions []*schema.Function, s *schema.Schema) bool {
	for _, f := range functions {
		if ks := s.Keyspace(f.Keyspace); ks == nil || ks.Function(f.Name, f.Args) != f {
			return false
		}
	}
	return true
}
