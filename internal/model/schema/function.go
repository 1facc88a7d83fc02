// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// Function is a user-defined function or aggregate. Several may have one name: those of a keyspace differ in name or in
// the types of their arguments.
type Function struct {
	Keyspace, Name string
	// Args and Returns are not frozen outside, as CREATE FUNCTION wants them.
	Args    []*cqltype.Type
	Returns *cqltype.Type

	// ArgNames, in the order of Args, Language (java or javascript) and Body are those of a function. Nulls is true
	// if it is CALLED ON NULL INPUT, else a null argument makes its result null.
	ArgNames       []string
	Nulls          bool
	Language, Body string

	// Aggregate is not nil if it is an aggregate.
	Aggregate *Aggregate

	rest rest
}

// Aggregate is what an aggregate has that a function has not.
type Aggregate struct {
	// StateFunc is the name of the function that takes the state and a row's arguments and gives the next state,
	// FinalFunc that of the one which makes the result of the last state; empty: the state is the result. Both are in
	// the keyspace of the aggregate.
	StateFunc, FinalFunc string
	State                *cqltype.Type
	// Initial is the first state as a value of its type; nil is null.
	Initial []byte
}

// typeTexts are types as CQL writes them.
func typeTexts(types []*cqltype.Type) []string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = t.String()
	}
	return texts
}

// ArgTypes are the types of the arguments as system_schema has them: tuples are frozen.
func (f *Function) ArgTypes() []string { return typeTexts(f.Args) }

// PlainType is a type as DESCRIBE, resources and events of functions have it: what is always frozen is not said to be.
func PlainType(t *cqltype.Type) string {
	bare := *t
	bare.Frozen = false
	return bare.String()
}

// PlainArgs are the types of the arguments by PlainType.
func (f *Function) PlainArgs() []string {
	texts := make([]string, len(f.Args))
	for i, t := range f.Args {
		texts[i] = PlainType(t)
	}
	return texts
}

// Qualified is keyspace.name, as messages have it.
func (f *Function) Qualified() string { return f.Keyspace + "." + f.Name }

// takes reports whether the arguments are of these types, frozen or not.
func (f *Function) takes(args []*cqltype.Type) bool {
	return slices.EqualFunc(f.Args, args, func(a, b *cqltype.Type) bool { return a.Freeze().Equal(b.Freeze()) })
}

// uses reports whether an argument, the result or the state is of a user-defined type or contains it.
func (f *Function) uses(keyspace, name string) bool {
	is := func(t *cqltype.Type) bool { return t.References(keyspace, name) }
	return slices.ContainsFunc(f.Args, is) || is(f.Returns) || f.Aggregate != nil && is(f.Aggregate.State)
}

// key tells the functions of a keyspace apart and sorts them as system_schema does.
func (f *Function) key() string { return f.Name + "(" + strings.Join(f.ArgTypes(), ", ") + ")" }

func compareFunctions(a, b *Function) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.ArgTypes(), b.ArgTypes()))
}

// FunctionsNamed lists the functions and aggregates of a name.
func (k *Keyspace) FunctionsNamed(name string) []*Function {
	var out []*Function
	for _, f := range k.Functions {
		if f.Name == name {
			out = append(out, f)
		}
	}
	return out
}

// Function finds a function or aggregate by its name and the types of its arguments, frozen or not; nil if there is
// none.
func (k *Keyspace) Function(name string, args []*cqltype.Type) *Function {
	for _, f := range k.Functions {
		if f.Name == name && f.takes(args) {
			return f
		}
	}
	return nil
}

// StateFunction is the function that takes the state of an aggregate and a row to the next state; nil if there is none.
func (k *Keyspace) StateFunction(f *Function) *Function {
	return k.Function(f.Aggregate.StateFunc, append([]*cqltype.Type{f.Aggregate.State}, f.Args...))
}

// FinalFunction is the function that makes the result of an aggregate; nil if it has none.
func (k *Keyspace) FinalFunction(f *Function) *Function {
	if f.Aggregate.FinalFunc == "" {
		return nil
	}
	return k.Function(f.Aggregate.FinalFunc, []*cqltype.Type{f.Aggregate.State})
}

// Scalars lists the functions, or the aggregates, in order of names and then of the types of their arguments.
func (k *Keyspace) Scalars(aggregates bool) iter.Seq[*Function] {
	return func(yield func(*Function) bool) {
		for _, f := range k.Functions {
			if (f.Aggregate != nil) == aggregates && !yield(f) {
				return
			}
		}
	}
}

// withFunction returns a keyspace in which f replaces the function of its signature.
func (k *Keyspace) withFunction(f *Function) *Keyspace {
	next := k.withoutFunction(f)
	at, _ := slices.BinarySearchFunc(next.Functions, f, compareFunctions)
	next.Functions = slices.Insert(next.Functions, at, f)
	return next
}

// withoutFunction returns a keyspace without the function of a signature.
func (k *Keyspace) withoutFunction(f *Function) *Keyspace {
	next := *k
	next.Functions = slices.DeleteFunc(slices.Clone(k.Functions), func(other *Function) bool {
		return other.Name == f.Name && other.takes(f.Args)
	})
	return &next
}

// dependents lists the aggregates that a function is a part of, as messages have them.
func (k *Keyspace) dependents(f *Function) string {
	var names []string
	for a := range k.Scalars(true) {
		if k.StateFunction(a) == f || k.FinalFunction(a) == f {
			names = append(names, a.Qualified())
		}
	}
	return strings.Join(names, ", ")
}

// functions returns the functions with their types rebound.
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
