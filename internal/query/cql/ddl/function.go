// SPDX-License-Identifier: Apache-2.0

package ddl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

func (e *Executor) createFunction(s *parser.CreateFunction, session string) (schema.Change, error) {
	ks, err := keyspaceOf(s.Name, session)
	if err != nil {
		return nil, err
	}
	c := &schema.CreateFunction{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, OrReplace: s.OrReplace,
		IfNotExists: s.IfNotExists, Nulls: s.CalledOnNullInput, Language: s.Language, Body: s.Body}
	for _, a := range s.Args {
		spec, err := catalog.TypeSpec(a.Type)
		if err != nil {
			return nil, err
		}
		c.Args = append(c.Args, schema.FieldSpec{Name: a.Name.Name, Type: spec})
	}
	c.Returns, err = catalog.TypeSpec(s.Returns)
	return orError(c, err)
}

func (e *Executor) createAggregate(s *parser.CreateAggregate, session string) (schema.Change, error) {
	ks, err := keyspaceOf(s.Name, session)
	if err != nil {
		return nil, err
	}
	c := &schema.CreateAggregate{Stamp: e.stamp(), Keyspace: ks, Name: s.Name.Name.Name, OrReplace: s.OrReplace,
		IfNotExists: s.IfNotExists, StateFunc: s.StateFunc.Name, FinalFunc: s.FinalFunc.Name}
	if c.Args, err = typeSpecs(s.Args); err != nil {
		return nil, err
	}
	if c.State, err = catalog.TypeSpec(s.StateType); err != nil {
		return nil, err
	}
	if s.InitCond != nil {
		c.Initial = e.initial(s.InitCond)
	}
	return c, nil
}

// initial returns a function that evaluates INITCOND for the type of the state.
func (e *Executor) initial(t parser.Term) func(*schema.Keyspace, *cqltype.Type) ([]byte, error) {
	return func(ks *schema.Keyspace, state *cqltype.Type) ([]byte, error) {
		env := expr.NewEnv(e.opts.Release, ks, nil, 0)
		bound, err := expr.Bind(t, expr.Receiver{Name: "(dummy)", Type: state}, env)
		if err != nil {
			return nil, err
		}
		if len(env.Variables()) > 0 {
			return nil, dberr.Invalidf("Bind variables are not allowed in CREATE AGGREGATE")
		}
		v, _, err := bound.Eval(&expr.Bindings{Now: e.opts.Clock.Wall()})
		if err == nil && v != nil {
			v = append([]byte{}, v...)
		}
		return v, err
	}
}

func (e *Executor) dropFunction(name parser.QualifiedName, ifExists, hasArgs bool, args []*parser.TypeName,
	aggregate bool, session string) (schema.Change, error) {
	ks, err := keyspaceOf(name, session)
	if err != nil {
		return nil, err
	}
	c := &schema.DropFunction{Stamp: e.stamp(), Keyspace: ks, Name: name.Name.Name, Aggregate: aggregate,
		IfExists: ifExists, HasArgs: hasArgs}
	c.Args, err = typeSpecs(args)
	return orError(c, err)
}

func typeSpecs(names []*parser.TypeName) ([]*schema.TypeSpec, error) {
	specs := make([]*schema.TypeSpec, len(names))
	for i, n := range names {
		var err error
		if specs[i], err = catalog.TypeSpec(n); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

// compile checks the body of a new function before the change is applied.
func (e *Executor) compile(ctx context.Context, change schema.Change) error {
	c, ok := change.(*schema.CreateFunction)
	if !ok {
		return nil
	}
	if e.opts.Functions == nil {
		return dberr.Invalidf("User-defined functions are not supported")
	}
	if !(c.OrReplace && c.IfNotExists) && !schema.IsSystem(c.Keyspace) {
		if err := e.opts.Functions.Enabled(c.Language); err != nil {
			return err
		}
	}
	f, err := c.Function(e.catalog.Snapshot())
	if err != nil {
		return err
	}
	return e.opts.Functions.Check(ctx, f)
}

// argTexts returns the source texts of the argument types of a created function or aggregate. User-defined types are
// qualified with their keyspace. For other changes, it returns nil.
func argTexts(change schema.Change) []string {
	var keyspace string
	var args []*schema.TypeSpec
	switch c := change.(type) {
	case *schema.CreateFunction:
		keyspace = c.Keyspace
		for _, a := range c.Args {
			args = append(args, a.Type)
		}
	case *schema.CreateAggregate:
		keyspace, args = c.Keyspace, c.Args
	default:
		return nil
	}
	texts := make([]string, len(args))
	for i, t := range args {
		written := *t
		if t.Kind == cqltype.UDT {
			written.Keyspace = cmp.Or(t.Keyspace, keyspace)
		}
		texts[i] = written.String()
	}
	return texts
}

// onFunction returns the resource of a function or aggregate.
func onFunction(f *schema.Function) access.Resource {
	return access.OfFunction(f.Keyspace, f.Name, f.ArgTypes())
}

// createFunction checks the permission for creating or replacing a function. A replacement requires ALTER. A new
// function requires CREATE.
func (a Actor) createFunction(c *schema.CreateFunction, s *schema.Schema) error {
	if c.OrReplace {
		if f, err := c.Function(s); err == nil {
			if old := s.Keyspace(c.Keyspace).Function(f.Name, f.Args); old != nil {
				return a.Subject.Check(access.Alter, onFunction(old))
			}
		}
	}
	return a.Subject.Check(access.Create, access.OfFunctions(c.Keyspace))
}

// createAggregate checks the permissions for creating or replacing an aggregate. The actor also needs EXECUTE on the
// functions that the aggregate calls.
func (a Actor) createAggregate(c *schema.CreateAggregate, s *schema.Schema) error {
	allowed := a.Subject.Check(access.Create, access.OfFunctions(c.Keyspace))
	f := aggregateOf(c, s)
	if f == nil {
		return allowed
	}
	ks := s.Keyspace(c.Keyspace)
	if old := ks.Function(f.Name, f.Args); c.OrReplace && old != nil {
		allowed = a.Subject.Check(access.Alter, onFunction(old))
	}
	if allowed != nil {
		return allowed
	}
	for _, part := range []*schema.Function{ks.StateFunction(f), ks.FinalFunction(f)} {
		if part != nil {
			if err := a.Subject.Check(access.Execute, onFunction(part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// aggregateOf returns the aggregate that a change would create, or nil if a type does not exist.
func aggregateOf(c *schema.CreateAggregate, s *schema.Schema) *schema.Function {
	ks := s.Keyspace(c.Keyspace)
	if ks == nil {
		return nil
	}
	f := &schema.Function{Keyspace: ks.Name, Name: c.Name,
		Aggregate: &schema.Aggregate{StateFunc: c.StateFunc, FinalFunc: c.FinalFunc}}
	for _, spec := range append([]*schema.TypeSpec{c.State}, c.Args...) {
		t, err := spec.Bind(ks.Name, ks.Types)
		if err != nil {
			return nil
		}
		f.Args = append(f.Args, t)
	}
	f.Aggregate.State, f.Args = f.Args[0], f.Args[1:]
	return f
}

func (a Actor) dropFunction(c *schema.DropFunction, s *schema.Schema) error {
	if f, err := c.Find(s); err == nil && f != nil {
		return a.Subject.Check(access.Drop, onFunction(f))
	}
	return nil // no function will be dropped
}

// functionName returns the name of a function for lists. The name includes the argument types.
func functionName(f *schema.Function) string {
	return quote(f.Name) + "(" + strings.Join(f.PlainArgs(), ", ") + ")"
}

// functionOrder returns the sort key of a function in lists.
func functionOrder(f *schema.Function) string {
	return f.Name + "(" + strings.Join(f.PlainArgs(), ", ")
}

func functionKind(f *schema.Function) string {
	if f.Aggregate != nil {
		return "aggregate"
	}
	return "function"
}

// functions describes all functions or aggregates with a given name.
func (d *describer) functions(ks *schema.Keyspace, name string, aggregates bool) error {
	found := slices.DeleteFunc(ks.FunctionsNamed(name), func(f *schema.Function) bool {
		return (f.Aggregate != nil) != aggregates
	})
	if len(found) == 0 {
		what := "function"
		if aggregates {
			what = "aggregate"
		}
		return dberr.Invalidf("User defined %s '%s' not found in '%s'", what, name, ks.Name)
	}
	for _, f := range found {
		d.function(f)
	}
	return nil
}

func (d *describer) function(f *schema.Function) {
	create := createFunction
	if f.Aggregate != nil {
		create = createAggregate
	}
	d.add(quote(f.Keyspace), functionKind(f), functionName(f), create(f))
}

func createFunction(f *schema.Function) string {
	var b strings.Builder
	b.WriteString("CREATE FUNCTION " + quote(f.Keyspace) + "." + quote(f.Name) + "(")
	for i, t := range f.PlainArgs() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(f.ArgNames[i]) + " " + t)
	}
	input := "RETURNS NULL"
	if f.Nulls {
		input = "CALLED"
	}
	b.WriteString(")\n    " + input + " ON NULL INPUT\n    RETURNS " + schema.PlainType(f.Returns) + "\n    LANGUAGE " +
		f.Language + "\n    AS ")
	if strings.Contains(f.Body, "$$") || strings.HasSuffix(f.Body, "$") {
		b.WriteString(schema.FormatString(f.Body) + ";")
	} else {
		b.WriteString("$$" + f.Body + "$$;")
	}
	return b.String()
}

func createAggregate(f *schema.Function) string {
	a := f.Aggregate
	text := "CREATE AGGREGATE " + quote(f.Keyspace) + "." + functionName(f) + "\n    SFUNC " + quote(a.StateFunc) +
		"\n    STYPE " + schema.PlainType(a.State)
	if a.FinalFunc != "" {
		text += "\n    FINALFUNC " + quote(a.FinalFunc)
	}
	if a.Initial != nil {
		text += "\n    INITCOND " + a.State.Format(a.Initial)
	}
	return text + ";"
}
