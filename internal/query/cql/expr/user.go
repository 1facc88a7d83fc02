// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"bytes"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Compiler compiles functions.
type Compiler interface {
	// Compile returns a callable function. Errors are *dberr.Invalid.
	Compile(f *schema.Function) (Invoke, error)
}

// Functions resolves user-defined functions in a schema.
type Functions struct {
	Compiler
	*schema.Schema
}

// FunctionsOf returns the functions of a schema, or nil if c is nil.
func FunctionsOf(c Compiler, s *schema.Schema) *Functions {
	if c == nil {
		return nil
	}
	return &Functions{c, s}
}

// Invoke calls a function and returns the result. A nil value represents null. Invoke is safe for concurrent use.
// Errors are *dberr.FunctionFailure.
//
// The meter's context, deadline, and limits apply to the call. If the meter is nil, the call is not limited.
type Invoke func(m *meter.Meter, args [][]byte) ([]byte, error)

// Calls holds the distinct user-defined functions and aggregates that a statement calls.
type Calls struct {
	// Terms holds the functions that the statement's terms call. An aggregate precedes the functions that it calls. To
	// execute the statement, a role needs the EXECUTE permission on all functions in Terms.
	Terms []*schema.Function
	// Masks holds the functions that the column masks call when the statement reads rows.
	Masks []*schema.Function
	// computed reports whether the statement calls functions during execution.
	computed bool
	// constants limits the evaluation of the statement's constants. constants is nil until the first constant is
	// evaluated.
	constants *meter.Meter
}

// Called returns the functions that the terms call. The result contains only the terms that have already been bound.
func (e *Env) Called() Calls { return *e.calls }

// Computes reports whether the execution of the bound terms calls any functions, including native functions.
func (e *Env) Computes() bool { return e.calls.computed }

func (c *Calls) term(f *schema.Function) { c.Terms = noted(c.Terms, f) }

func (c *Calls) mask(f *schema.Function) { c.Masks = noted(c.Masks, f) }

func noted(list []*schema.Function, f *schema.Function) []*schema.Function {
	if slices.Contains(list, f) {
		return list
	}
	return append(list, f)
}

// None reports whether the statement calls no user-defined functions.
func (c *Calls) None() bool { return len(c.Terms)+len(c.Masks) == 0 }

// Current reports whether the functions are unchanged in the current schema.
func (c *Calls) Current(keyspace func(name string) *schema.Keyspace) bool {
	for _, list := range [][]*schema.Function{c.Terms, c.Masks} {
		for _, f := range list {
			if ks := keyspace(f.Keyspace); ks == nil || ks.Function(f.Name, f.Args) != f {
				return false
			}
		}
	}
	return true
}

// functionsIn returns the keyspace in which a function is looked up. If the name does not contain a keyspace,
// functionsIn returns the keyspace of the statement.
func (e *Env) functionsIn(name parser.QualifiedName) *schema.Keyspace {
	switch {
	case e.Functions == nil:
		return nil
	case !name.HasKeyspace() || e.Keyspace != nil && e.Keyspace.Name == name.Keyspace.Name:
		return e.Keyspace
	}
	return e.Functions.Keyspace(name.Keyspace.Name)
}

// userForms returns the user-defined overloads of a function in the order of Cassandra's messages.
func (in *inference) userForms(t *parser.FunctionCall) []*function {
	ks := in.env.functionsIn(t.Name)
	if ks == nil {
		return nil
	}
	var forms []*function
	for _, f := range ks.FunctionsNamed(t.Name.Name.Name) {
		forms = append(forms, userForm(ks, f))
	}
	slices.SortStableFunc(forms, func(x, y *function) int {
		return slices.Compare(y.user.ArgTypes(), x.user.ArgTypes())
	})
	return forms
}

func userForm(ks *schema.Keyspace, f *schema.Function) *function {
	form := &function{name: f.Name, args: f.Args, result: f.Returns, nulls: f.Nulls, user: f, within: ks}
	if f.Aggregate != nil {
		form.state = func(form *function) accumulator { return &folding{fold: form.fold, state: f.Aggregate.Initial} }
	}
	return form
}

// compile makes the selected user-defined function callable.
func (b *binder) compile(f *function) (*function, error) {
	if f.user == nil {
		return f, nil
	}
	b.env.calls.term(f.user)
	compiled := *f
	var err error
	if f.user.Aggregate != nil {
		compiled.fold, err = b.compileAggregate(f)
		return &compiled, err
	}
	return b.env.invoked(&compiled)
}

// invoked sets the call function of a user-defined overload. No other goroutine may use the overload.
func (e *Env) invoked(f *function) (*function, error) {
	invoke, err := e.Functions.Compile(f.user)
	f.call = func(b *Bindings, args [][]byte) ([]byte, error) { return invoke(b.Meter, args) }
	return f, err
}

func (b *binder) compileAggregate(f *function) (*userFold, error) {
	step, final := f.within.StateFunction(f.user), f.within.FinalFunction(f.user)
	if step == nil || final == nil && f.user.Aggregate.FinalFunc != "" {
		return nil, dberr.Invalidf("The state or final function of aggregate '%s' does not exist", f.user.Qualified())
	}
	fold := &userFold{strict: !step.Nulls}
	b.env.calls.term(step)
	var err error
	if fold.step, err = b.env.Functions.Compile(step); err != nil || final == nil {
		return fold, err
	}
	b.env.calls.term(final)
	fold.strictFinal = !final.Nulls
	fold.final, err = b.env.Functions.Compile(final)
	return fold, err
}

// userFold is a compiled user-defined aggregate.
type userFold struct {
	step, final Invoke // final may be nil
	// If strict or strictFinal is true, the function is not called with null arguments.
	strict, strictFinal bool
}

// folding is the state of a user-defined aggregate.
type folding struct {
	fold  *userFold
	state []byte
	args  [][]byte
}

// addAll adds the arguments of a row. The arguments may be null.
func (s *folding) addAll(m *meter.Meter, args [][]byte) error {
	null := func(v []byte) bool { return v == nil }
	if s.fold.strict && slices.ContainsFunc(args, null) {
		return nil
	}
	if s.fold.strict && s.state == nil {
		return nil
	}
	s.args = append(append(s.args[:0], s.state), args...)
	next, err := s.fold.step(m, s.args)
	if err != nil {
		return err
	}
	s.state = next
	return nil
}

func (s *folding) add(v []byte) error { return s.addAll(nil, [][]byte{v}) }

func (s *folding) result() ([]byte, error) { return s.finish(nil) }

// finish returns the result. The meter limits the call of the final function.
func (s *folding) finish(m *meter.Meter) ([]byte, error) {
	if s.fold.final == nil {
		return bytes.Clone(s.state), nil
	}
	if s.fold.strictFinal && s.state == nil {
		return nil, nil
	}
	return s.fold.final(m, [][]byte{s.state})
}

// signatureOf returns the signature of an overload for error texts.
func signatureOf(qualified string, args []*cqltype.Type, result *cqltype.Type) string {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.String()
	}
	return qualified + " : (" + strings.Join(texts, ", ") + ") -> " + result.String()
}
