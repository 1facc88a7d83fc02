// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"errors"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/function/java"
	"github.com/ilion-db/ilion/internal/query/function/script"
)

// These are the supported languages.
const (
	Java       = "java"
	JavaScript = "javascript"
)

// Functions runs functions. It is safe for concurrent use.
type Functions struct {
	engine  *script.Engine
	release *compat.Release
	enabled bool
	cache   cache
}

// New returns a Functions that runs JavaScript functions in engine. If enabled is false, functions cannot be created or
// called.
func New(engine *script.Engine, rel *compat.Release, enabled bool) *Functions {
	return &Functions{engine: engine, release: rel, enabled: enabled}
}

// Enabled implements ddl.Functions.
func (f *Functions) Enabled(language string) error {
	switch {
	case !f.enabled:
		return &dberr.Invalid{Message: f.release.FunctionsDisabled}
	case language != Java && language != JavaScript:
		return &dberr.Invalid{Message: f.release.UnknownLanguage}
	}
	return nil
}

// Check implements ddl.Functions.
func (f *Functions) Check(ctx context.Context, fn *schema.Function) error {
	_, err := f.compile(ctx, fn)
	return err
}

// Compile implements ddl.Functions.
func (f *Functions) Compile(fn *schema.Function) (expr.Invoke, error) {
	if err := f.Enabled(fn.Language); err != nil {
		return nil, err
	}
	if call := f.cache.get(fn); call != nil {
		return call, nil
	}
	call, err := f.compile(context.Background(), fn)
	if err == nil {
		f.cache.put(fn, call)
	}
	return call, err
}

func (f *Functions) compile(ctx context.Context, fn *schema.Function) (expr.Invoke, error) {
	if fn.Language == JavaScript {
		body, err := f.engine.Body(ctx, fn.Qualified(), fn.ArgNames, fn.Args, fn.Returns, fn.Body)
		if err != nil {
			return nil, &dberr.Invalid{Message: err.Error()}
		}
		return func(m *meter.Meter, args [][]byte) ([]byte, error) {
			m.Pause() // the script engine has separate slots
			out, err := f.engine.Call(m.Context(), body, m.Who(), args)
			return out, f.callError(fn, err)
		}, nil
	}
	program, err := java.Compile(java.Signature{ArgNames: fn.ArgNames, Args: fn.Args, Returns: fn.Returns,
		Nulls: fn.Nulls, Body: fn.Body})
	if err != nil {
		return nil, &dberr.Invalid{Message: err.Error()}
	}
	return func(m *meter.Meter, args [][]byte) ([]byte, error) {
		out, err := program.Call(m, args)
		return out, f.callError(fn, err)
	}, nil
}

// callError converts the error of a failed call to a client error.
func (f *Functions) callError(fn *schema.Function, err error) error {
	if err == nil {
		return nil
	}
	if failure, ok := errors.AsType[*script.Failure](err); ok && failure.Status == 429 {
		return &dberr.Overloaded{Message: failure.Message}
	}
	message := err.Error()
	if f.release.NamesFailedFunction {
		message = "execution of '" + fn.Qualified() + "[" + strings.Join(fn.ArgTypes(), ", ") + "]' failed: " + message
	}
	return &dberr.FunctionFailure{Keyspace: fn.Keyspace, Function: fn.Name, ArgTypes: fn.ArgTypes(), Message: message}
}
