// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/parser"
)

// factory makes the form of a function for the types of its arguments: that of a function which takes too many types to
// list.
type factory struct {
	name   string
	params []parameter
	// required is how many arguments there must be; those after them may be missing.
	required int
	// build makes the form; the types are as many as the arguments, and each is one that its parameter takes.
	build func(name string, args []*cqltype.Type) (*function, error)
}

// parameter is what a factory takes in one place.
type parameter struct {
	// text is the parameter in the text about the number of arguments.
	text string
	// fixed is the type of every argument; nil: it is that of the argument.
	fixed *cqltype.Type
	// otherwise is the type of an argument that says nothing of its own; nil: that is refused.
	otherwise *cqltype.Type
	// like is 1 + the place of the argument whose type this one has; 0: of none.
	like int
	// vector reads a list literal as a vector of floats.
	vector bool
	// takes judges a type, and wants says in a text what it judges by; nil takes any.
	takes func(t *cqltype.Type) bool
	wants string
}

// factories are the functions that are made for their arguments, by name.
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

// signature is the function with its parameters, as error texts show it.
func (f *factory) signature() string {
	texts := make([]string, len(f.params))
	for i, p := range f.params {
		if texts[i] = p.text; i >= f.required {
			texts[i] = "[" + p.text + "]"
		}
	}
	return f.qualified() + "(" + strings.Join(texts, ", ") + ")"
}

// make makes the form of a function for arguments. wanted is the type that its result is wanted for, nil if any will
// do.
func (b *binder) make(f *factory, args []parser.Term, wanted *cqltype.Type) (*function, error) {
	if len(args) < f.required || len(args) > len(f.params) {
		return nil, dberr.Invalidf("Invalid number of arguments for function %s", f.signature())
	}
	types := make([]*cqltype.Type, len(args))
	for i, a := range args {
		types[i] = b.argType(&f.params[i], a)
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

// argType is the type of an argument by itself, nil if it is not known.
func (b *binder) argType(p *parameter, a parser.Term) *cqltype.Type {
	if list, ok := a.(*parser.ListLiteral); ok && p.vector && len(list.Elems) > 0 &&
		b.fitAll(list.Elems, tFloat) != cqltype.NoFit {
		return cqltype.VectorOf(tFloat, len(list.Elems))
	}
	t := b.preferredType(a)
	if t == nil {
		t = p.fixed
	}
	return t
}

// preferredType is the type of a term, also of constants and of literals of them, which have a type that they prefer.
// It is nil if it is not known.
func (b *binder) preferredType(t parser.Term) *cqltype.Type {
	if known, ok := b.preferred[t]; ok {
		return known
	}
	return remember(&b.preferred, t, b.computePreferredType(t))
}

func (b *binder) computePreferredType(t parser.Term) *cqltype.Type {
	if known := b.exactType(t); known != nil {
		return known
	}
	switch t := t.(type) {
	case *parser.Constant:
		return constantKinds[t.Kind].Preferred(t.Text)
	case *parser.ListLiteral:
		if e := b.preferredOf(t.Elems); e != nil {
			return cqltype.ListOf(e).Freeze()
		}
	case *parser.SetLiteral:
		if e := b.preferredOf(t.Elems); e != nil {
			return cqltype.SetOf(e).Freeze()
		}
	case *parser.MapLiteral:
		if b.scope != nil {
			return nil // it may be of a user-defined type
		}
		var keys, values []parser.Term
		for _, e := range t.Entries {
			keys, values = append(keys, e.Key), append(values, e.Value)
		}
		if k, v := b.preferredOf(keys), b.preferredOf(values); k != nil && v != nil {
			return cqltype.MapOf(k, v).Freeze()
		}
	}
	return nil
}

// preferredOf is a type that one of the terms prefers and all fit; nil if there is none.
func (b *binder) preferredOf(terms []parser.Term) *cqltype.Type {
	for _, t := range terms {
		if e := b.preferredType(t); e != nil && b.fitAll(terms, e) != cqltype.NoFit {
			return e
		}
	}
	return nil
}

// anyOf takes the types of some kinds.
func anyOf(kinds ...cqltype.Kind) func(*cqltype.Type) bool {
	return func(t *cqltype.Type) bool { return slices.Contains(kinds, t.Kind) }
}

// fits takes what can stand for a type.
func fits(to *cqltype.Type) func(*cqltype.Type) bool {
	return func(t *cqltype.Type) bool { return assign(to, t) != cqltype.NoFit }
}
