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

// harden rejects constructs that cannot be limited at run time. It also adds a call of guard to operators that create
// strings or arrays. For example, x + y is replaced by guard(x + y).
func harden(prg *ast.Program) error {
	f := outer(prg)
	if f == nil {
		return errors.New("it is not a single function")
	}
	parameter, ok := f.ParameterList.List[0].Target.(*ast.Identifier)
	if !ok {
		return errors.New("it is not a single function")
	}
	parameter.Name = guardName
	w := &walker{folds: map[ast.Expression]int{}}
	return w.walk(reflect.ValueOf(f.Body), 0)
}

type walker struct {
	// folds maps the expressions that the compiler may fold to the nesting depth of ||, &&, and ?? operators with a
	// foldable left operand. folding is the total cost of folding.
	folds   map[ast.Expression]int
	folding int
}

// foldingMax limits the cost of constant folding. The compiler folds the left operand of each ||, &&, and ?? up to four
// times.
const foldingMax = 4096

// fold records an expression that the compiler may fold.
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

// folded returns the nesting depth of a foldable expression. If the compiler does not fold the expression, folded
// returns false.
func (w *walker) folded(e ast.Expression) (int, bool) {
	if isLiteral(e) {
		return 0, true
	}
	n, ok := w.folds[e]
	return n, ok
}

var expressionType = reflect.TypeFor[ast.Expression]()

// walk visits the nodes of v in depth-first order. It replaces expressions in the fields and slices of the nodes.
func (w *walker) walk(v reflect.Value, depth int) error {
	if depth > nodesDeepMax {
		return fmt.Errorf("expressions or statements are nested more than %d levels deep", nodesDeepMax)
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
			// DeclarationList contains the declaration nodes a second time for the compiler.
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

// expression returns the replacement of e, or nil if e is not replaced.
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
			return nil, errors.New("it uses BigInt, which is not supported")
		}
	case *ast.YieldExpression:
		if e.Delegate {
			return nil, errors.New("it uses yield*, which is not supported")
		}
	case *ast.RegExpLiteral:
		return nil, checkPattern(e.Pattern)
	}
	return nil, nil
}

// isLiteral reports whether e is a literal. A literal extends a string by at most the length of its text.
func isLiteral(e ast.Expression) bool {
	switch e.(type) {
	case *ast.NumberLiteral, *ast.StringLiteral, *ast.BooleanLiteral, *ast.NullLiteral:
		return true
	}
	return false
}

func guard(e ast.Expression) ast.Expression {
	return &ast.CallExpression{
		Callee:           &ast.Identifier{Name: guardName, Idx: e.Idx0()},
		LeftParenthesis:  e.Idx0(),
		ArgumentList:     []ast.Expression{e},
		RightParenthesis: e.Idx1(),
	}
}

// checkPattern rejects a regular expression if matching one character could take too many steps. The limit is a
// multiple of the expression's length.
func checkPattern(pattern string) error {
	_, err := steps(pattern)
	return err
}

// checkMatch rejects a match if the product of the text length and the number of steps of the pattern is too large.
func checkMatch(pattern string, length int) error {
	n, err := steps(pattern)
	if err == nil && n*length > matchMax {
		err = fmt.Errorf("a text of %d characters is too long for a regular expression of about %d steps: the limit of "+
			"their product is %d", length, n, matchMax)
	}
	return err
}

// steps returns the approximate number of steps for matching a pattern against one character.
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
		return 0, fmt.Errorf("a regular expression of %d characters repeats %d times; the limit of their product is %d",
			len(pattern), repeats-1, repeatsMax)
	}
	return repeats * max(1, len(pattern)), nil
}
