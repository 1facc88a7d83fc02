// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/file"
	"github.com/dop251/goja/token"
)

// harden walks a parsed script, refuses what cannot be bounded while it runs, and has the results of operators that
// make strings or arrays of their operands pass the guard: x + y becomes guard(x + y).
func harden(prg *ast.Program) error {
	f := outer(prg)
	if f == nil {
		return errors.New("it is not one function")
	}
	parameter, ok := f.ParameterList.List[0].Target.(*ast.Identifier)
	if !ok {
		return errors.New("it is not one function")
	}
	parameter.Name = guardName
	w := &walker{folds: map[ast.Expression]int{}}
	return w.walk(reflect.ValueOf(f.Body), 0)
}

type walker struct {
	// folds are the expressions that the compiler may work out by itself, and how many || && and ?? with such an
	// expression on their left are in each other in them; folding is what all of that comes to.
	folds   map[ast.Expression]int
	folding int
}

// foldingMax bounds what the compiler works out by itself: for each || && and ?? it does so with what is on the left up
// to four times.
const foldingMax = 4096

// fold notes an expression that the compiler may work out.
func (w *walker) fold(e ast.Expression) error {
	switch e := e.(type) {
	case *ast.UnaryExpression:
		if n, ok := w.folded(e.Operand); ok {
			w.folds[e] = n
		}
	case *ast.BinaryExpression:
		left, ok := w.folded(e.Left)
		right, both := w.folded(e.Right)
		switch {
		case !ok:
		case e.Operator == token.LOGICAL_OR || e.Operator == token.LOGICAL_AND || e.Operator == token.COALESCE:
			n := max(left+1, right)
			w.folds[e] = n
			if w.folding += 1 << (2 * min(n, 15)); w.folding > foldingMax {
				return errors.New("too many constants are joined by ||, && or ??")
			}
		case both:
			w.folds[e] = max(left, right)
		}
	}
	return nil
}

// folded is the count of folds for an expression; false if the compiler leaves it as it is.
func (w *walker) folded(e ast.Expression) (int, bool) {
	if isLiteral(e) {
		return 0, true
	}
	n, ok := w.folds[e]
	return n, ok
}

var expressionType = reflect.TypeFor[ast.Expression]()

// walk visits what v holds, depth first, and replaces expressions in the fields and slices that hold them.
func (w *walker) walk(v reflect.Value, depth int) error {
	if depth > nodesDeepMax {
		return fmt.Errorf("expressions or statements lie more than %d deep in each other", nodesDeepMax)
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if err := w.walk(v.Elem(), depth); err != nil {
			return err
		}
		if v.Type() != expressionType {
			return nil
		}
		guarded, err := w.expression(v.Interface().(ast.Expression))
		if err == nil && guarded != nil {
			v.Set(reflect.ValueOf(guarded))
		}
		return err
	case reflect.Pointer:
		if v.IsNil() || v.Type() == reflect.TypeFor[*file.File]() {
			return nil
		}
		return w.walk(v.Elem(), depth+1)
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Interface && k != reflect.Pointer && k != reflect.Struct {
			return nil
		}
		for i := range v.Len() {
			if err := w.walk(v.Index(i), depth); err != nil {
				return err
			}
		}
	case reflect.Struct:
		t := v.Type()
		for i := range t.NumField() {
			// The declarations are listed a second time, for the compiler; they are the same nodes.
			if name := t.Field(i).Name; name == "DeclarationList" || !t.Field(i).IsExported() {
				continue
			}
			if err := w.walk(v.Field(i), depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// expression returns what to put in the place of e, nil if it stays.
func (w *walker) expression(e ast.Expression) (ast.Expression, error) {
	if err := w.fold(e); err != nil {
		return nil, err
	}
	switch e := e.(type) {
	case *ast.BinaryExpression:
		if e.Operator == token.PLUS && !isLiteral(e.Left) && !isLiteral(e.Right) {
			return guard(e), nil
		}
	case *ast.AssignExpression:
		if e.Operator == token.PLUS && !isLiteral(e.Right) {
			return guard(e), nil
		}
	case *ast.TemplateLiteral:
		if len(e.Expressions) > templateMax {
			return nil, fmt.Errorf("a template has more than %d expressions", templateMax)
		}
		if e.Tag == nil && len(e.Expressions) > 0 {
			return guard(e), nil
		}
	case *ast.ArrayLiteral:
		for _, element := range e.Value {
			if _, ok := element.(*ast.SpreadElement); ok {
				return guard(e), nil
			}
		}
	case *ast.NumberLiteral:
		if _, ok := e.Value.(*big.Int); ok {
			return nil, errors.New("it uses BigInt, which scripts do not have")
		}
	case *ast.YieldExpression:
		if e.Delegate {
			return nil, errors.New("it uses yield*, which scripts do not have")
		}
	case *ast.RegExpLiteral:
		return nil, checkPattern(e.Pattern)
	}
	return nil, nil
}

// isLiteral reports whether e is a literal that makes a string longer by no more than its own text.
func isLiteral(e ast.Expression) bool {
	switch e.(type) {
	case *ast.NumberLiteral, *ast.StringLiteral, *ast.BooleanLiteral, *ast.NullLiteral:
		return true
	}
	return false
}

// guard makes the call of the guard with e.
func guard(e ast.Expression) ast.Expression {
	return &ast.CallExpression{
		Callee:           &ast.Identifier{Name: guardName, Idx: e.Idx0()},
		LeftParenthesis:  e.Idx0(),
		ArgumentList:     []ast.Expression{e},
		RightParenthesis: e.Idx1(),
	}
}

// checkPattern refuses regular expressions whose matching could take a multiple of their length for each character.
func checkPattern(pattern string) error {
	_, err := steps(pattern)
	return err
}

// checkMatch refuses to match a text of so many characters with a pattern that takes too many steps for each.
func checkMatch(pattern string, length int) error {
	n, err := steps(pattern)
	if err == nil && n*length > matchMax {
		err = fmt.Errorf("a text of %d characters is too long for a regular expression of about %d steps: the product of "+
			"both is bounded by %d", length, n, matchMax)
	}
	return err
}

// steps is about what a pattern takes for each character of a text.
func steps(pattern string) (int, error) {
	if len(pattern) > patternMax {
		return 0, fmt.Errorf("a regular expression is longer than %d characters", patternMax)
	}
	repeats := 1
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c >= '0' && c <= '9':
			j := i
			for j < len(pattern) && pattern[j] >= '0' && pattern[j] <= '9' {
				j++
			}
			if i > 0 && (pattern[i-1] == '{' || pattern[i-1] == ',') {
				n, err := strconv.Atoi(pattern[i:j])
				if err != nil || n > repeatsMax {
					return 0, errors.New("a regular expression repeats too often")
				}
				repeats += n
			}
			i = j - 1
		}
	}
	if repeats > 1 && repeats*len(pattern) > repeatsMax {
		return 0, fmt.Errorf("a regular expression of %d characters repeats %d times; the product of both is bounded by %d",
			len(pattern), repeats-1, repeatsMax)
	}
	return repeats * max(1, len(pattern)), nil
}
