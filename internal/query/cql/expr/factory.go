// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// factory creates an overload of a function for given argument types. It is used for functions that accept too many
// types for a list of overloads.
type factory struct {
	name   string
	params []parameter
	// required is the number of required arguments. The remaining arguments are optional.
	required int
	// build creates the overload for the types of the arguments. The parameters must accept these types.
	build func(name string, args []*cqltype.Type) (*function, error)
}

// parameter is a parameter of a factory.
type parameter struct {
	// text represents the parameter in error texts.
	text string
	// fixed is the type of the argument. If fixed is nil, the argument determines the type.
	fixed *cqltype.Type
	// otherwise is the type of an argument whose type is unknown. If otherwise is nil, an argument of unknown type is
	// rejected.
	otherwise *cqltype.Type
	// like is 1 plus the index of the argument that must have the same type. If no other argument must have the same
	// type, like is 0.
	like int
	// vector reports whether a list literal is interpreted as a vector of floats.
	vector bool
	// takes reports whether the parameter accepts a type. If takes is nil, the parameter accepts any type. wants
	// describes the condition in error texts.
	takes func(t *cqltype.Type) bool
	wants string
}

// factories holds the factories by function name.
var factories = func() map[string]*factory {
	all := map[string]*factory{}
	for _, list := range [][]*factory{collectionFactories(), maskFactories(), similarityFactories()} {
		for _, f := range list {
			all[f.name] = f
		}
	}
	return all
}()

func (f *factory) qualified() string { return "system." + f.name }

// signature returns the function with its parameters for error texts.
func (f *factory) signature() string {
	texts := make([]string, len(f.params))
	for i, p := range f.params {
		if texts[i] = p.text; i >= f.required {
			texts[i] = "[" + p.text + "]"
		}
	}
	return f.qualified() + "(" + strings.Join(texts, ", ") + ")"
}

// make creates the overload of a function for the given arguments. wanted is the required result type, or nil for any
// type.
func (in *inference) make(f *factory, args []parser.Term, wanted *cqltype.Type) (*function, error) {
	if len(args) < f.required || len(args) > len(f.params) {
		return nil, dberr.Invalidf("Invalid number of arguments for function %s", f.signature())
	}
	types := make([]*cqltype.Type, len(args))
	for i, a := range args {
		types[i] = in.argType(&f.params[i], a)
	}
	for i, a := range args {
		p := &f.params[i]
		if other := p.like - 1; other >= 0 && types[other] != nil && (types[i] == nil || !p.vector) {
			types[i] = types[other]
		}
		if types[i] == nil && p.fixed == nil && p.takes == nil {
			types[i] = wanted
		}
		if types[i] == nil {
			types[i] = p.otherwise
		}
		if types[i] == nil {
			return nil, dberr.Invalidf("Cannot infer type of argument %s in call to function %s: use type casts to disambiguate",
				Text(a), f.signature())
		}
		if p.takes != nil && !p.takes(types[i]) {
			return nil, dberr.Invalidf("Function %s requires %s, but found argument %s of type %s", f.qualified(),
				p.wants, Text(a), types[i])
		}
		if p.fixed != nil {
			types[i] = p.fixed
		}
	}
	return f.build(f.name, types)
}

// argType returns the type of an argument without a receiver, or nil if the type is unknown.
func (in *inference) argType(p *parameter, a parser.Term) *cqltype.Type {
	if list, ok := a.(*parser.ListLiteral); ok && p.vector && len(list.Elems) > 0 &&
		in.fitAll(list.Elems, tFloat) != cqltype.NoFit {
		return cqltype.VectorOf(tFloat, len(list.Elems))
	}
	t := in.preferredType(a)
	if t == nil {
		t = p.fixed
	}
	return t
}

// preferredType returns the type of a term, or nil if the type is unknown. For a constant and for a literal of
// constants, it returns the preferred type.
func (in *inference) preferredType(t parser.Term) *cqltype.Type {
	if known, ok := in.preferred[t]; ok {
		return known
	}
	return remember(&in.preferred, t, in.computePreferredType(t))
}

func (in *inference) computePreferredType(t parser.Term) *cqltype.Type {
	if known := in.exactType(t); known != nil {
		return known
	}
	switch t := t.(type) {
	case *parser.Constant:
		return constantKinds[t.Kind].Preferred(t.Text)
	case *parser.ListLiteral:
		if e := in.preferredOf(t.Elems); e != nil {
			return cqltype.ListOf(e).Freeze()
		}
	case *parser.SetLiteral:
		if e := in.preferredOf(t.Elems); e != nil {
			return cqltype.SetOf(e).Freeze()
		}
	case *parser.MapLiteral:
		if in.scope != nil {
			return nil // the literal may have a user-defined type
		}
		var keys, values []parser.Term
		for _, e := range t.Entries {
			keys, values = append(keys, e.Key), append(values, e.Value)
		}
		if k, v := in.preferredOf(keys), in.preferredOf(values); k != nil && v != nil {
			return cqltype.MapOf(k, v).Freeze()
		}
	}
	return nil
}

// preferredOf returns the preferred type of a term that all other terms fit, or nil.
func (in *inference) preferredOf(terms []parser.Term) *cqltype.Type {
	for _, t := range terms {
		if e := in.preferredType(t); e != nil && in.fitAll(terms, e) != cqltype.NoFit {
			return e
		}
	}
	return nil
}

// anyOf returns a function that accepts types of the given kinds.
func anyOf(kinds ...cqltype.Kind) func(*cqltype.Type) bool {
	return func(t *cqltype.Type) bool { return slices.Contains(kinds, t.Kind) }
}

// fits returns a function that accepts types that are compatible with to.
func fits(to *cqltype.Type) func(*cqltype.Type) bool {
	return func(t *cqltype.Type) bool { return assign(to, t) != cqltype.NoFit }
}
