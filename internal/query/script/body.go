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

// Body is the compiled body of a user-defined function of CQL. It is immutable, and safe for concurrent use.
type Body struct {
	program *Program
	args    []*cqltype.Type
	returns *cqltype.Type
}

// parameter is what the names of arguments look like that JavaScript can have for variables.
var parameter = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// completion is the variable that holds the value of the last statement; no text of a script can spell it.
const completion = "\x00value"

// Body compiles the body of a function of CQL, or finds it where it was compiled before. As in Cassandra 4.0 its
// result is the value of the last statement that was carried out, or that of a return. Name is for errors, which are
// *Failure.
func (e *Engine) Body(ctx context.Context, name string, params []string, args []*cqltype.Type, returns *cqltype.Type,
	body string) (*Body, error) {
	for _, p := range params {
		if !parameter.MatchString(p) {
			return nil, refused("The argument %q of function %s cannot be the name of a variable of JavaScript.", p, name)
		}
	}
	key := "cql\x00" + strings.Join(params, ",") + "\x00" + body
	program, err := e.compiled(ctx, name, key, func() (*Program, error) { return compileBody(name, params, body) })
	if err != nil {
		return nil, err
	}
	return &Body{program, args, returns}, nil
}

// Call calls a function for a claimant, with values of the types of its arguments, nil for null. Errors are *Failure.
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

// within is the function literal that the function of head returns, nil if it returns something else.
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

// complete has each statement that is an expression keep its value.
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
