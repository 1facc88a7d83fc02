// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Function is a user-defined function or aggregate. Functions of a keyspace with the same name have different argument
// types.
type Function struct {
	Keyspace, Name string
	// Args and Returns are not frozen at the top level, as CREATE FUNCTION requires.
	Args    []*cqltype.Type
	Returns *cqltype.Type

	// ArgNames (in the order of Args), Language (java or javascript), and Body describe a function. Nulls is true for
	// CALLED ON NULL INPUT. Otherwise, a null argument makes the result null.
	ArgNames       []string
	Nulls          bool
	Language, Body string

	// Aggregate is not nil for an aggregate.
	Aggregate *Aggregate

	rest rest
}

// Aggregate holds the additional properties of an aggregate.
type Aggregate struct {
	// StateFunc is the name of the function that computes the next state from the state and a row's arguments.
	// FinalFunc is the name of the function that computes the result from the last state. If FinalFunc is empty, the
	// last state is the result. Both functions are in the keyspace of the aggregate.
	StateFunc, FinalFunc string
	State                *cqltype.Type
	// Initial is the first state as a value of the state type, or nil for null.
	Initial []byte
}

// typeTexts returns types in CQL notation.
func typeTexts(types []*cqltype.Type) []string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = t.String()
	}
	return texts
}

// ArgTypes returns the types of the arguments as system_schema shows them, with tuples frozen.
func (f *Function) ArgTypes() []string { return typeTexts(f.Args) }

// PlainType returns a type in the form of DESCRIBE, resources, and function events. This form omits frozen<> for types
// that are always frozen.
func PlainType(t *cqltype.Type) string {
	bare := *t
	bare.Frozen = false
	return bare.String()
}

// PlainArgs returns the types of the arguments in the form of PlainType.
func (f *Function) PlainArgs() []string {
	texts := make([]string, len(f.Args))
	for i, t := range f.Args {
		texts[i] = PlainType(t)
	}
	return texts
}

// Qualified returns the qualified name of the function in the form keyspace.name.
func (f *Function) Qualified() string { return f.Keyspace + "." + f.Name }

// takes reports whether the arguments have the given types, frozen or not.
func (f *Function) takes(args []*cqltype.Type) bool {
	return slices.EqualFunc(f.Args, args, func(a, b *cqltype.Type) bool { return a.Freeze().Equal(b.Freeze()) })
}

// uses reports whether an argument, the result, or the state of the function uses a user-defined type, directly or
// nested.
func (f *Function) uses(keyspace, name string) bool {
	is := func(t *cqltype.Type) bool { return t.References(keyspace, name) }
	return slices.ContainsFunc(f.Args, is) || is(f.Returns) || f.Aggregate != nil && is(f.Aggregate.State)
}

// key returns a key that is unique among the functions of a keyspace. Keys sort functions in the order of
// system_schema.
func (f *Function) key() string { return f.Name + "(" + strings.Join(f.ArgTypes(), ", ") + ")" }

func compareFunctions(a, b *Function) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ArgTypes(), b.ArgTypes()))
}

// FunctionsNamed returns the functions and aggregates with a name.
func (k *Keyspace) FunctionsNamed(name string) []*Function {
	var out []*Function
	for _, f := range k.Functions {
		if f.Name == name {
			out = append(out, f)
		}
	}
	return out
}

// Function returns the function or aggregate with the given name and argument types, frozen or not. Function returns
// nil if no such function exists.
func (k *Keyspace) Function(name string, args []*cqltype.Type) *Function {
	for _, f := range k.Functions {
		if f.Name == name && f.takes(args) {
			return f
		}
	}
	return nil
}

// StateFunction returns the state function of an aggregate, or nil if none exists.
func (k *Keyspace) StateFunction(f *Function) *Function {
	return k.Function(f.Aggregate.StateFunc, append([]*cqltype.Type{f.Aggregate.State}, f.Args...))
}

// FinalFunction returns the final function of an aggregate, or nil if the aggregate has no final function.
func (k *Keyspace) FinalFunction(f *Function) *Function {
	if f.Aggregate.FinalFunc == "" {
		return nil
	}
	return k.Function(f.Aggregate.FinalFunc, []*cqltype.Type{f.Aggregate.State})
}

// Scalars yields the functions, sorted by name and then by argument types.
func (k *Keyspace) Scalars(aggregates bool) iter.Seq[*Function] {
	return func(yield func(*Function) bool) {
		for _, f := range k.Functions {
			if (f.Aggregate != nil) == aggregates && !yield(f) {
				return
			}
		}
	}
}

// withFunction returns a keyspace that contains f. A function with the same signature is replaced.
func (k *Keyspace) withFunction(f *Function) *Keyspace {
	next := k.withoutFunction(f)
	at, _ := slices.BinarySearchFunc(next.Functions, f, compareFunctions)
	next.Functions = slices.Insert(next.Functions, at, f)
	return next
}

// withoutFunction returns a keyspace without the function that has the given signature.
func (k *Keyspace) withoutFunction(f *Function) *Keyspace {
	next := *k
	next.Functions = slices.DeleteFunc(slices.Clone(k.Functions), func(other *Function) bool {
		return other.Name == f.Name && other.takes(f.Args)
	})
	return &next
}

// dependents returns the aggregates that use a function, in the form of Cassandra's messages.
func (k *Keyspace) dependents(f *Function) string {
	var names []string
	for a := range k.Scalars(true) {
		if k.StateFunction(a) == f || k.FinalFunction(a) == f {
			names = append(names, a.Qualified())
		}
	}
	return strings.Join(names, ", ")
}

// functions returns copies of the functions whose types are rebound.
func (r *rebinder) functions(old []*Function, keyspace, name string) []*Function {
	next := slices.Clone(old)
	for i, f := range old {
		if !f.uses(keyspace, name) {
			continue
		}
		g := *f
		g.Args, g.Returns = r.all(f.Args), r.rebind(f.Returns)
		if f.Aggregate != nil {
			a := *f.Aggregate
			a.State = r.rebind(a.State)
			g.Aggregate = &a
		}
		next[i] = &g
	}
	return next
}
