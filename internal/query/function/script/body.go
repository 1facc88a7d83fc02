// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"regexp"
	"strings"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/fairshare"
)

// Body is the compiled body of a CQL user-defined function. It is immutable and safe for concurrent use.
type Body struct {
	program *Program
	args    []*cqltype.Type
	returns *cqltype.Type
}

// parameter matches argument names that are valid JavaScript variable names.
var parameter = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// completion is the variable that holds the value of the last statement. Scripts cannot contain this name.
const completion = "\x00value"

// Body returns the compiled body of a CQL function from the cache or compiles the body. As in Cassandra 4.0, the result
// of the function is the value of the last executed statement or of a return statement. Error messages contain name.
// Errors are of type *Failure.
func (e *Engine) Body(ctx context.Context, name string, params []string, args []*cqltype.Type, returns *cqltype.Type,
	body string) (*Body, error) {
	for _, p := range params {
		if !parameter.MatchString(p) {
			return nil, refused("The argument %q of function %s is not a valid JavaScript variable name.", p, name)
		}
	}
	key := "cql\x00" + strings.Join(params, ",") + "\x00" + body
	program, err := e.compiled(ctx, name, key, func() (*Program, error) { return compileBody(name, params, body) })
	if err != nil {
		return nil, err
	}
	return &Body{program, args, returns}, nil
}

// Call calls a function on behalf of a claimant. args holds the arguments in wire format. A nil argument represents
// null. Errors are of type *Failure.
func (e *Engine) Call(ctx context.Context, b *Body, who fairshare.Principal, args [][]byte) ([]byte, error) {
	out, err := e.do(ctx, cqlFunction, &Call{Program: b.program, Who: who, cql: b, wire: args})
	if err != nil {
		return nil, err
	}
	if out.failure != nil {
		return nil, out.failure
	}
	return out.wire, nil
}

func compileBody(name string, params []string, body string) (*Program, error) {
	if err := scan(body); err != nil {
		return nil, refused("The function %s cannot be compiled: %v.", name, err)
	}
	params = append(params[:len(params):len(params)], "udfContext")
	prg, err := goja.Parse(name, head+"(function("+strings.Join(params, ",")+"){\n"+body+"\n})})")
	if err != nil {
		return nil, refused("The function %s cannot be compiled: %v", name, err)
	}
	f := within(prg)
	if f == nil || len(f.ParameterList.List) != len(params) {
		return nil, refused("The function %s cannot be compiled: its braces do not match.", name)
	}
	complete(f.Body)
	f.ParameterList.List = append(f.ParameterList.List, &ast.Binding{Target: &ast.Identifier{Name: completion}})
	f.Body.List = append(f.Body.List, &ast.ReturnStatement{Argument: &ast.Identifier{Name: completion}})
	return finish(name, prg)
}

// within returns the function literal that the function of head returns, or nil.
func within(prg *ast.Program) *ast.FunctionLiteral {
	o := outer(prg)
	if o == nil || len(o.Body.List) != 1 {
		return nil
	}
	s, ok := o.Body.List[0].(*ast.ReturnStatement)
	if !ok {
		return nil
	}
	f, _ := s.Argument.(*ast.FunctionLiteral)
	return f
}

// complete makes each expression statement store its value in the completion variable.
func complete(s ast.Statement) {
	switch s := s.(type) {
	case *ast.ExpressionStatement:
		s.Expression = &ast.AssignExpression{Operator: token.ASSIGN, Left: &ast.Identifier{Name: completion,
			Idx: s.Expression.Idx0()}, Right: s.Expression}
	case *ast.BlockStatement:
		for _, inner := range s.List {
			complete(inner)
		}
	case *ast.IfStatement:
		complete(s.Consequent)
		complete(s.Alternate)
	case *ast.ForStatement:
		complete(s.Body)
	case *ast.ForInStatement:
		complete(s.Body)
	case *ast.ForOfStatement:
		complete(s.Body)
	case *ast.WhileStatement:
		complete(s.Body)
	case *ast.DoWhileStatement:
		complete(s.Body)
	case *ast.LabelledStatement:
		complete(s.Statement)
	case *ast.TryStatement:
		complete(s.Body)
		if s.Catch != nil {
			complete(s.Catch.Body)
		}
	case *ast.SwitchStatement:
		for _, c := range s.Body {
			for _, inner := range c.Consequent {
				complete(inner)
			}
		}
	}
}
