// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// BindGroup binds a function of GROUP BY. The function must not be an aggregate. The function must be nondecreasing,
// because the rows of a group must be adjacent.
func BindGroup(t parser.Term, scope Scope, env *Env) (Term, error) {
	b := &binder{inference: inference{env: env, scope: scope}}
	f, err := b.selectedFunction(t)
	switch {
	case err != nil:
		return nil, err
	case f.state != nil:
		return nil, dberr.Invalidf("Aggregate functions are not supported within the GROUP BY clause, got: %s",
			f.qualified())
	case !f.monotonic:
		return nil, dberr.Invalidf("Only monotonic functions are supported in the GROUP BY clause. Got: %s ",
			groupSignature(f, argsOf(t)))
	}
	for _, a := range argsOf(t) {
		switch a.(type) {
		case *parser.FunctionCall, *parser.Arithmetic, *parser.Negate:
			if _, err := BindGroup(a, scope, env); err != nil {
				return nil, err
			}
		}
	}
	return b.selector(t, nil)
}

// operatorFunctions holds the function names that represent operators in error texts.
var operatorFunctions = map[byte]string{
	'+': "_add", '-': "_substract", '*': "_multiply", '/': "_divide", '%': "_modulo", 'n': "_negate",
}

// groupSignature returns the signature of a function or operator for an error about GROUP BY.
func groupSignature(f *function, args []parser.Term) string {
	named := *f
	if len(f.name) == 1 {
		op := f.name[0]
		if op == '-' && len(args) == 1 {
			op = 'n'
		}
		named.name = operatorFunctions[op]
	}
	text, types := named.signature(), make([]string, len(args))
	for i, a := range args {
		if types[i] = f.args[i].String(); isConstant(a) {
			types[i] += "(constant)"
		}
	}
	name, _, _ := strings.Cut(text, " : ")
	return name + " : (" + strings.Join(types, ", ") + ") -> " + f.result.String()
}

func isConstant(t parser.Term) bool {
	_, is := t.(*parser.Constant)
	return is
}

// ColumnsIn returns the columns that a term refers to, in order of appearance.
func ColumnsIn(t parser.Term) []parser.Ident {
	switch t := t.(type) {
	case *parser.Column:
		return []parser.Ident{t.Name}
	case *parser.Paren:
		return ColumnsIn(t.Term)
	case *parser.TypeHint:
		return ColumnsIn(t.Term)
	}
	var names []parser.Ident
	for _, a := range argsOf(t) {
		names = append(names, ColumnsIn(a)...)
	}
	return names
}
