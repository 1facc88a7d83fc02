// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These are the limits for the functions of a keyspace. Every node keeps the records of functions in memory.
const (
	// FunctionBodyMax is the maximum length of the body of a function, in bytes.
	FunctionBodyMax = 64 << 10
	// FunctionArgsMax is the maximum number of arguments of a function. FunctionsMax is the maximum number of functions
	// and aggregates in a keyspace.
	FunctionArgsMax = 100
	FunctionsMax    = 1000
)

// CreateFunction represents the statement CREATE FUNCTION. The package that runs functions validates the body.
type CreateFunction struct {
	Stamp
	Keyspace, Name         string
	OrReplace, IfNotExists bool
	Args                   []FieldSpec
	Returns                *TypeSpec
	Nulls                  bool
	Language, Body         string
}

// CreateAggregate represents the statement CREATE AGGREGATE.
type CreateAggregate struct {
	Stamp
	Keyspace, Name         string
	OrReplace, IfNotExists bool
	Args                   []*TypeSpec
	StateFunc, FinalFunc   string
	State                  *TypeSpec
	// Initial binds INITCOND to the state type. Initial is nil if the statement has no INITCOND.
	Initial func(ks *Keyspace, state *cqltype.Type) ([]byte, error)
}

// DropFunction represents the statements DROP FUNCTION and DROP AGGREGATE. If HasArgs is false, the name must be
// unambiguous.
type DropFunction struct {
	Stamp
	Keyspace, Name string
	Aggregate      bool
	IfExists       bool
	HasArgs        bool
	Args           []*TypeSpec
}

func checkNotFrozen(what string, types ...*TypeSpec) error {
	for _, t := range types {
		if t != nil && t.Frozen && t.Kind != cqltype.Tuple && t.Kind != cqltype.Vector {
			return dberr.Invalidf("%s '%s' cannot be frozen; remove frozen<> modifier from '%s'", what, t, t)
		}
	}
	return nil
}

func checkDirectives(replace, notExists bool) error {
	if replace && notExists {
		return dberr.Invalidf("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives")
	}
	return nil
}

// functionNameMax is the maximum length of a function's name, in bytes.
const functionNameMax = 256

// checkFunctionName rejects names that are ambiguous in permissions. A name with a dot belongs to a procedure of a
// container.
func checkFunctionName(name string) error {
	if name == "" || len(name) > functionNameMax || strings.Contains(name, ".") {
		return dberr.Invalidf("The name of a function or aggregate must have 1 to %d bytes and must not contain a dot",
			functionNameMax)
	}
	return nil
}

func (c *CreateFunction) argTypes() []*TypeSpec {
	types := make([]*TypeSpec, len(c.Args))
	for i, a := range c.Args {
		types[i] = a.Type
	}
	return types
}

// Function returns the function that the change would create in a schema. It makes all checks that do not depend on
// existing functions.
func (c *CreateFunction) Function(s *Schema) (*Function, error) {
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, err
	}
	if err := checkDirectives(c.OrReplace, c.IfNotExists); err != nil {
		return nil, err
	}
	f := &Function{Keyspace: c.Keyspace, Name: c.Name, Nulls: c.Nulls, Language: c.Language, Body: c.Body}
	for _, a := range c.Args {
		f.ArgNames = append(f.ArgNames, a.Name)
	}
	for i, name := range f.ArgNames {
		if slices.Contains(f.ArgNames[:i], name) {
			return nil, dberr.Invalidf("Duplicate argument names for given function %s with argument names [%s]",
				c.Name,
				strings.Join(f.ArgNames, ", "))
		}
	}
	if err := checkFunctionName(c.Name); err != nil {
		return nil, err
	}
	switch {
	case len(c.Body) > FunctionBodyMax:
		return nil, dberr.Invalidf("The body of function %s has %d bytes, but the maximum is %d", c.Name, len(c.Body),
			FunctionBodyMax)
	case len(c.Args) > FunctionArgsMax:
		return nil, dberr.Invalidf("Function %s has %d arguments, but the maximum is %d", c.Name, len(c.Args),
			FunctionArgsMax)
	}
	if err := checkNotFrozen("Argument", c.argTypes()...); err != nil {
		return nil, err
	}
	if err := checkNotFrozen("Return type", c.Returns); err != nil {
		return nil, err
	}
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return nil, noKeyspace(c.Keyspace)
	}
	var err error
	if f.Args, err = bindAll(ks, c.argTypes()); err != nil {
		return nil, err
	}
	if f.Returns, err = c.Returns.Bind(ks.Name, ks.Types); err != nil {
		return nil, err
	}
	return f, checkFunctionSize(ks, f)
}

func bindAll(ks *Keyspace, specs []*TypeSpec) ([]*cqltype.Type, error) {
	types := make([]*cqltype.Type, len(specs))
	for i, spec := range specs {
		var err error
		if types[i], err = spec.Bind(ks.Name, ks.Types); err != nil {
			return nil, err
		}
	}
	return types, nil
}

func checkFunctionSize(ks *Keyspace, f *Function) error {
	if len(ks.Functions) >= FunctionsMax && ks.Function(f.Name, f.Args) == nil {
		return dberr.Invalidf("Cannot create function: keyspace %s has reached the limit of %d functions and "+
			"aggregates", ks.Name,
			FunctionsMax)
	}
	n := nested(f.Returns, NestedTypesMax)
	for _, t := range f.Args {
		n += nested(t, NestedTypesMax)
	}
	if n > NestedTypesMax {
		return dberr.Invalidf("The types of function %s contain more than %d nested types", f.Name, NestedTypesMax)
	}
	return nil
}

func (c *CreateFunction) apply(s *Schema) (*Schema, []Event, error) {
	f, err := c.Function(s)
	if err != nil {
		return nil, nil, err
	}
	ks := s.Keyspaces[c.Keyspace]
	old := ks.Function(f.Name, f.Args)
	if old == nil {
		return s.withKeyspace(ks.withFunction(f)), []Event{f.event(Created)}, nil
	}
	switch {
	case old.Aggregate != nil:
		return nil, nil, dberr.Invalidf("Function '%s' cannot replace an aggregate", c.Name)
	case c.IfNotExists:
		return s, nil, nil
	case !c.OrReplace:
		return nil, nil, dberr.Invalidf("Function '%s' already exists", c.Name)
	case c.Nulls != old.Nulls:
		directive := "RETURNS NULL ON NULL INPUT"
		if c.Nulls {
			directive = "CALLED ON NULL INPUT"
		}
		return nil, nil, dberr.Invalidf("Function '%s' must have %s directive", c.Name, directive)
	case !f.Returns.Freeze().Equal(old.Returns.Freeze()):
		return nil, nil, dberr.Invalidf("Cannot replace function '%s', the new return type %s is not compatible "+
			"with the "+
			"return type %s of existing function", c.Name, PlainType(f.Returns), PlainType(old.Returns))
	case f.Language == old.Language && f.Body == old.Body && slices.Equal(f.ArgNames, old.ArgNames):
		return s, nil, nil
	}
	f.rest = old.rest
	return s.withKeyspace(ks.withFunction(f)), []Event{f.event(Updated)}, nil
}

// event returns an event for the function.
func (f *Function) event(change string) Event {
	return Event{Change: change, Target: f.target(), Keyspace: f.Keyspace, Name: f.Name,
		Args: strings.Join(f.ArgTypes(), argSeparator)}
}

func (f *Function) target() string {
	if f.Aggregate != nil {
		return TargetAggregate
	}
	return TargetFunction
}

func (c *CreateAggregate) apply(s *Schema) (*Schema, []Event, error) {
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	if err := checkDirectives(c.OrReplace, c.IfNotExists); err != nil {
		return nil, nil, err
	}
	if err := checkNotFrozen("Argument", c.Args...); err != nil {
		return nil, nil, err
	}
	if err := checkNotFrozen("State type", c.State); err != nil {
		return nil, nil, err
	}
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return nil, nil, dberr.Configf("Keyspace %s doesn't exist", c.Keyspace)
	}
	f, err := c.build(ks)
	if err != nil {
		return nil, nil, err
	}
	event := f.event(Created)
	if old := ks.Function(f.Name, f.Args); old != nil {
		event.Change = Updated
		switch {
		case old.Aggregate == nil:
			return nil, nil, dberr.Invalidf("Aggregate '%s' cannot replace a function", c.Name)
		case c.IfNotExists:
			return s, nil, nil
		case !c.OrReplace:
			return nil, nil, dberr.Invalidf("Aggregate '%s' already exists", c.Name)
		case !f.Returns.Freeze().Equal(old.Returns.Freeze()):
			return nil, nil, dberr.Invalidf("Cannot replace aggregate '%s', the new return type %s isn't compatible "+
				"with "+
				"the return type %s of existing function", c.Name, PlainType(f.Returns), PlainType(old.Returns))
		}
		f.rest = old.rest
	}
	return s.withKeyspace(ks.withFunction(f)), []Event{event}, nil
}

// build returns the aggregate that the change creates. The functions of the aggregate must exist.
func (c *CreateAggregate) build(ks *Keyspace) (*Function, error) {
	if len(c.Args) > FunctionArgsMax {
		return nil, dberr.Invalidf("Aggregate %s has %d arguments, but the maximum is %d", c.Name, len(c.Args),
			FunctionArgsMax)
	}
	if err := checkFunctionName(c.Name); err != nil {
		return nil, err
	}
	args, err := bindAll(ks, c.Args)
	if err != nil {
		return nil, err
	}
	state, err := c.State.Bind(ks.Name, ks.Types)
	if err != nil {
		return nil, err
	}
	f := &Function{Keyspace: ks.Name, Name: c.Name, Args: args,
		Aggregate: &Aggregate{StateFunc: c.StateFunc, FinalFunc: c.FinalFunc, State: state}}
	step := ks.StateFunction(f)
	text := func(name string, args []*TypeSpec) string {
		texts := make([]string, len(args))
		for i, t := range args {
			texts[i] = t.String()
		}
		return ks.Name + "." + name + "(" + strings.Join(texts, ", ") + ")"
	}
	stepText := text(c.StateFunc, append([]*TypeSpec{c.State}, c.Args...))
	switch {
	case step == nil:
		return nil, dberr.Invalidf("State function %s doesn't exist", stepText)
	case step.Aggregate != nil:
		return nil, dberr.Invalidf("State function %s isn't a scalar function", stepText)
	case !step.Returns.Freeze().Equal(state.Freeze()):
		return nil, dberr.Invalidf("State function %s return type must be the same as the first argument type - check "+
			"STYPE, argument and return types", stepText)
	}
	f.Returns = step.Returns
	if c.FinalFunc != "" {
		final := ks.FinalFunction(f)
		finalText := text(c.FinalFunc, []*TypeSpec{c.State})
		if final == nil {
			return nil, dberr.Invalidf("Final function %s doesn't exist", finalText)
		}
		if final.Aggregate != nil {
			return nil, dberr.Invalidf("Final function %s isn't a scalar function", finalText)
		}
		f.Returns = final.Returns
	}
	if c.Initial != nil {
		if f.Aggregate.Initial, err = c.Initial(ks, state); err != nil {
			return nil, err
		}
	}
	if !step.Nulls && f.Aggregate.Initial == nil {
		return nil, dberr.Invalidf("Cannot create aggregate '%s' without INITCOND because state function %s does not "+
			"accept 'null' arguments", c.Name, step.Qualified())
	}
	return f, checkFunctionSize(ks, f)
}

func (c *DropFunction) apply(s *Schema) (*Schema, []Event, error) {
	if err := checkUserKeyspace(c.Keyspace); err != nil {
		return nil, nil, err
	}
	what := "Function"
	if c.Aggregate {
		what = "Aggregate"
	}
	name := c.Keyspace + "." + c.Name
	if c.HasArgs {
		texts := make([]string, len(c.Args))
		for i, t := range c.Args {
			texts[i] = t.String()
		}
		name += "(" + strings.Join(texts, ", ") + ")"
	}
	f, err := c.Find(s)
	if err != nil {
		return nil, nil, err
	}
	if f == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, dberr.Invalidf("%s '%s' doesn't exist", what, name)
	}
	ks := s.Keyspaces[c.Keyspace]
	if users := ks.dependents(f); users != "" {
		return nil, nil, dberr.Invalidf("Function '%s' is still referenced by aggregates %s", name, users)
	}
	if tables := ks.maskedBy(f); tables != "" {
		return nil, nil, dberr.Invalidf("Function '%s' is still referenced by column masks in tables %s", name, tables)
	}
	return s.withKeyspace(ks.withoutFunction(f)), []Event{f.event(Dropped)}, nil
}

// Find returns the function to drop, or nil if the function does not exist. Find returns an error if the name is
// ambiguous.
func (c *DropFunction) Find(s *Schema) (*Function, error) {
	ks := s.Keyspaces[c.Keyspace]
	if ks == nil {
		return nil, nil
	}
	named := ks.FunctionsNamed(c.Name)
	if len(named) > 1 && !c.HasArgs {
		what := "FUNCTION"
		if c.Aggregate {
			what = "AGGREGATE"
		}
		return nil, dberr.Invalidf("'DROP %s %s' matches multiple function definitions; specify the argument types by "+
			"issuing a statement like 'DROP %s %s (type, type, ...)'. You can use cqlsh 'DESCRIBE %s %s' command to "+
			"find "+
			"all overloads", what, c.Name, what, c.Name, what, c.Name)
	}
	if err := checkNotFrozen("Argument", c.Args...); err != nil {
		return nil, err
	}
	args, err := bindAll(ks, c.Args)
	if err != nil {
		return nil, err
	}
	for _, f := range named {
		if (f.Aggregate != nil) == c.Aggregate && (!c.HasArgs || f.takes(args)) {
			return f, nil
		}
	}
	return nil, nil
}
