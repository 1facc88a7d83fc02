// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// function is one overload of a native function or operator.
type function struct {
	name   string // in lower case, except castAsInt and similar names
	args   []*cqltype.Type
	result *cqltype.Type
	// pure reports whether the result depends only on the arguments. A call of a pure function with constant arguments
	// is evaluated during binding.
	pure bool
	// monotonic reports whether the function is nondecreasing in its first argument. GROUP BY accepts only monotonic
	// functions.
	monotonic bool
	// nulls reports whether call receives null arguments. Otherwise, a null argument makes the result null.
	nulls bool
	call  func(b *Bindings, args [][]byte) ([]byte, error)
	// state creates the accumulator of an aggregate. For other functions, state is nil.
	state func(f *function) accumulator
	// weigh returns the number of bytes that call allocates. weigh must be set if call can allocate more than twice the
	// size of its arguments.
	weigh func(args [][]byte) int
	// user is the user-defined function or aggregate, or nil. within is the keyspace of user. fold executes a
	// user-defined aggregate.
	user   *schema.Function
	within *schema.Keyspace
	fold   *userFold
}

func (f *function) qualified() string {
	if f.user != nil {
		return f.user.Qualified()
	}
	return "system." + f.name
}

// signature returns the signature of the overload for error texts.
func (f *function) signature() string {
	if f.user != nil {
		return signatureOf(f.qualified(), f.args, f.result)
	}
	return signatureOf("system."+cqltype.QuoteName(f.name), f.args, f.result)
}

func signatures(fs []*function) string {
	parts := make([]string, len(fs))
	for i, f := range fs {
		parts[i] = f.signature()
	}
	return strings.Join(parts, ", ")
}

// callee describes the function or operator of a call. It holds the name for error texts, the operator, the overloads,
// and the arguments.
type callee struct {
	name  string
	op    byte // one of + - * / %, 'n' for negation, or 0 for a function
	forms []*function
	args  []parser.Term
}

// formsOf returns the overloads of a function by name. User-defined overloads precede native overloads.
func (in *inference) formsOf(t *parser.FunctionCall, to *cqltype.Type) ([]*function, error) {
	user := in.userForms(t)
	if len(user) == 0 {
		return in.native(t, to)
	}
	if t.Name.HasKeyspace() {
		return user, nil
	}
	if forms, err := in.native(t, to); err == nil {
		user = append(user, forms...)
	}
	return user, nil
}

// native returns the native overloads of a function by name. Only the system keyspace has native functions.
func (in *inference) native(t *parser.FunctionCall, to *cqltype.Type) ([]*function, error) {
	if t.Name.HasKeyspace() && t.Name.Keyspace.Name != "system" {
		return nil, nil
	}
	switch name := t.Name.Name.Name; name {
	case "token":
		if in.env.Table == nil {
			return nil, nil
		}
		return []*function{tokenFunction(in.env.Table)}, nil
	case "tojson", "to_json":
		if in.scope == nil && in.env.Release.OldJSON {
			return nil, dberr.Invalidf("toJson() may only be used within the selection clause of SELECT statements")
		}
		if len(t.Args) != 1 {
			return nil, dberr.Invalidf("Invalid number of arguments for %s() function", "toJson")
		}
		arg := in.exactType(t.Args[0])
		if arg == nil && !in.env.Release.OldJSON {
			arg = in.preferredType(t.Args[0])
		}
		if arg == nil {
			return nil, nil
		}
		return []*function{toJSONFunction(name, arg)}, nil
	case "fromjson", "from_json":
		if in.scope != nil || to == nil {
			shown := "fromJson"
			if !in.env.Release.OldJSON {
				shown = name
			}
			return nil, dberr.Invalidf("%s() cannot be used in the selection clause of a SELECT statement", shown)
		}
		return []*function{fromJSONFunction(name, to, in.env.Release)}, nil
	case "dateof", "unixtimestampof":
		if !in.env.Release.OldTimeFunctions {
			return nil, nil
		}
		return natives[name], nil
	case "min", "max":
		if len(t.Args) == 1 && !in.env.Release.MinMaxAsBlob {
			if arg := in.exactType(t.Args[0]); arg != nil && !arg.Kind.IsNative() {
				return []*function{extremeFunction(name, arg)}, nil
			}
		}
		return natives[name], nil
	default:
		if f := factories[name]; f != nil {
			made, err := in.make(f, t.Args, to)
			if err != nil {
				return nil, err
			}
			return []*function{made}, nil
		}
		return natives[name], nil
	}
}

// resolveCall finds the overload of a call or operation for the types of the arguments. If to is not nil, the overload
// must also fit the receiver. If no function has the name, resolveCall returns nil without an error.
func (in *inference) resolveCall(t parser.Term, to *cqltype.Type) (*function, error) {
	key := fitKey{t, to}
	r, ok := in.resolved[key]
	if !ok {
		r.form, r.err = in.computeCall(t, to)
		remember(&in.resolved, key, r)
	}
	return r.form, r.err
}

func (in *inference) computeCall(t parser.Term, to *cqltype.Type) (*function, error) {
	var c callee
	switch t := t.(type) {
	case *parser.FunctionCall:
		forms, err := in.formsOf(t, to)
		if err != nil || len(forms) == 0 {
			return nil, err
		}
		c = callee{(&printer{}).functionName(t), 0, forms, t.Args}
	case *parser.Arithmetic:
		c = callee{string(t.Op), t.Op, operators[t.Op], []parser.Term{t.Left, t.Right}}
	case *parser.Negate:
		c = callee{"-", 'n', operators['n'], []parser.Term{t.Term}}
	}
	if len(c.forms) == 1 {
		return c.forms[0], in.checkArgs(c.forms[0], c.args)
	}
	return in.best(&c, to)
}

// checkArgs rejects arguments that do not fit the only overload of a function.
func (in *inference) checkArgs(f *function, args []parser.Term) error {
	if len(args) != len(f.args) {
		return dberr.Invalidf("Invalid number of arguments in call to function %s: %d required but %d provided",
			f.qualified(), len(f.args), len(args))
	}
	for i, a := range args {
		if in.fit(a, f.args[i]) == cqltype.NoFit {
			return dberr.Invalidf("Type error: %s cannot be passed as argument %d of function %s of type %s", Text(a),
				i, f.qualified(), f.args[i])
		}
	}
	return nil
}

// best selects an overload. It prefers an overload that matches exactly. Otherwise, it selects the only matching
// overload.
func (in *inference) best(c *callee, to *cqltype.Type) (*function, error) {
	var compatible []*function
	for _, f := range c.forms {
		if to != nil && assign(to, f.result) == cqltype.NoFit || len(f.args) != len(c.args) {
			continue
		}
		worst := cqltype.ExactFit
		for i, a := range c.args {
			if worst = min(worst, in.fit(a, f.args[i])); worst == cqltype.NoFit {
				break
			}
		}
		switch worst {
		case cqltype.ExactFit:
			return f, nil
		case cqltype.WeakFit:
			compatible = append(compatible, f)
		}
	}
	switch len(compatible) {
	case 1:
		return compatible[0], nil
	case 0:
		return nil, c.noMatch()
	}
	if c.op != 0 && c.op != 'n' && to != nil && !containsMarker(c.args...) {
		for _, f := range compatible {
			if sameValues(f.args[0], to) && sameValues(f.args[1], to) {
				return f, nil
			}
		}
	}
	return nil, c.ambiguous(compatible, in.env.Release)
}

func (c *callee) noMatch() error {
	switch c.op {
	case 0:
		return dberr.Invalidf("Invalid call to function %s, none of its type signatures match (known type "+
			"signatures: %s)", c.name, signatures(c.forms))
	case 'n':
		return dberr.Invalidf("the '-' operation is not supported on %s", Text(c.args[0]))
	}
	return dberr.Invalidf("the '%s' operation is not supported between %s and %s", c.name, Text(c.args[0]),
		Text(c.args[1]))
}

func (c *callee) ambiguous(compatible []*function, rel *compat.Release) error {
	switch c.op {
	case 0:
		return dberr.Invalidf("Ambiguous call to function %s (can be matched by following signatures: %s): use type casts to disambiguate",
			c.name, signatures(compatible))
	case 'n':
		return dberr.Invalidf("Ambiguous negation: use type casts to disambiguate")
	}
	advice := "use type hint to disambiguate, example '(int) ?'"
	if rel.CastsToDisambiguate {
		advice = "use type casts to disambiguate"
	}
	return dberr.Invalidf("Ambiguous '%s' operation with args %s and %s: %s", c.name, Text(c.args[0]), Text(c.args[1]),
		advice)
}

// containsMarker reports whether the terms contain a bind marker.
func containsMarker(terms ...parser.Term) bool {
	for _, t := range terms {
		switch t := t.(type) {
		case *parser.Marker:
			return true
		case *parser.TypeHint:
			if containsMarker(t.Term) {
				return true
			}
		case *parser.FunctionCall:
			if containsMarker(t.Args...) {
				return true
			}
		case *parser.Arithmetic:
			if containsMarker(t.Left, t.Right) {
				return true
			}
		case *parser.Negate:
			if containsMarker(t.Term) {
				return true
			}
		case *parser.Paren:
			if containsMarker(t.Term) {
				return true
			}
		case *parser.TupleLiteral:
			if containsMarker(t.Elems...) {
				return true
			}
		}
	}
	return false
}

// bindCall binds a call or operation outside a SELECT clause, or as an argument inside a SELECT clause.
func (b *binder) bindCall(t parser.Term, r Receiver) (Term, error) {
	if b.scope != nil {
		return b.selector(t, r.Type)
	}
	f, err := b.resolveCall(t, r.Type)
	if err != nil {
		return nil, err
	}
	switch {
	case f == nil:
		return nil, dberr.Invalidf("Unknown function %s called", (&printer{}).functionName(t.(*parser.FunctionCall)))
	case f.state != nil:
		return nil, dberr.Invalidf("Aggregation function are not supported in the where clause")
	case assign(r.Type, f.result) == cqltype.NoFit:
		what := "function " + f.qualified()
		if _, ok := t.(*parser.FunctionCall); !ok {
			what = "operation " + f.name
		}
		return nil, dberr.Invalidf("Type error: cannot assign result of %s (type %s) to %s (type %s)", what, f.result,
			r.Name, r.Type)
	}
	args, err := b.bindAll(argsOf(t), func(i int) Receiver {
		return Receiver{Name: "arg" + itoa(i) + "(" + strings.ToLower(f.qualified()) + ")", Type: f.args[i]}
	})
	if err != nil {
		return nil, err
	}
	if f, err = b.compile(f); err != nil {
		return nil, err
	}
	return b.newCall(f, args)
}

func argsOf(t parser.Term) []parser.Term {
	switch t := t.(type) {
	case *parser.FunctionCall:
		return t.Args
	case *parser.Arithmetic:
		return []parser.Term{t.Left, t.Right}
	case *parser.Negate:
		return []parser.Term{t.Term}
	}
	return nil
}

type call struct {
	fn   *function
	args []Term
}

// newCall returns the term of a call. If the result is constant, newCall evaluates the call.
func (b *binder) newCall(f *function, args []Term) (Term, error) {
	var t Term = &call{f, args}
	if f.pure {
		var err error
		if t, err = b.fold(t, args); err != nil {
			return nil, err
		}
	}
	if _, constant := t.(*constant); !constant {
		b.env.calls.computed = true
	}
	return t, nil
}

func (c *call) Type() *cqltype.Type { return c.fn.result }

func (c *call) Eval(b *Bindings) ([]byte, State, error) {
	var room [4][]byte
	values := room[:0]
	for _, a := range c.args {
		v, state, err := a.Eval(b)
		if err != nil {
			return nil, Null, err
		}
		if state == Unset {
			return nil, Null, dberr.Invalidf("Invalid unset value for argument in call to function %s", c.fn.name)
		}
		if state == Null && !c.fn.nulls {
			return nil, Null, nil
		}
		values = append(values, v)
	}
	if err := c.fn.charge(b, values); err != nil {
		return nil, Null, err
	}
	v, err := c.fn.call(b, values)
	if err != nil {
		return nil, Null, err
	}
	return v, stateOf(v), nil
}

// charge adds the memory and the work of a call to the meter. It must be called before the call.
func (f *function) charge(b *Bindings, args [][]byte) error {
	if b.Meter == nil {
		return nil
	}
	bytes, steps := 0, 0
	for i, v := range args {
		bytes += 2 * len(v)
		if i >= len(f.args) {
			continue // an overload of a user-defined function in a mask
		}
		if k := f.args[i].Kind; k == cqltype.Varint || k == cqltype.Decimal {
			steps += len(v) * len(v) / numberSquares // multiplication and division take quadratic time
		}
	}
	if f.weigh != nil {
		bytes = f.weigh(args)
	}
	if err := b.Meter.Step(steps); err != nil {
		return err
	}
	return b.charge(bytes)
}

// numberSquares is the squared operand size in bytes for which the meter counts one step of arbitrary-precision
// arithmetic.
const numberSquares = 1 << 14
