// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
)

// Program is the compiled body of a script. It is immutable, and safe for concurrent use.
type Program struct {
	name string
	code *goja.Program
}

// The bounds of what is compiled: the compiler's time grows with the square of how deep an expression is nested, and
// cannot be interrupted.
const (
	bracketsDeepMax = 200
	arrowsMax       = 1000
	labelsMax       = 500
	nodesDeepMax    = 1500
	templateMax     = 16
	patternMax      = 2000
	// repeatsMax bounds the length of a pattern times its counted repetitions.
	repeatsMax = 20_000
)

// head is what the program of a script begins with; guardName becomes the name of its parameter, which no text of a
// script can spell.
const (
	head      = "(function(guard){return "
	guardName = "\x00guard"
)

// compile makes a program of the body of a script: a function expression or declaration, which may be followed by
// further declarations. Name is for its errors.
func compile(name, body string) (*Program, error) {
	if len(body) > BodyBytesMax {
		return nil, refused("The script %s has %d bytes; at most %d are allowed.", name, len(body), BodyBytesMax)
	}
	if err := scan(body); err != nil {
		return nil, refused("The script %s cannot be compiled: %v.", name, err)
	}
	prg, err := parse(name, body)
	if err != nil {
		return nil, refused("The script %s cannot be compiled: %v", name, err)
	}
	return finish(name, prg)
}

// finish hardens a parsed script and makes a program of it.
func finish(name string, prg *ast.Program) (*Program, error) {
	if err := harden(prg); err != nil {
		return nil, refused("The script %s cannot be compiled: %v.", name, err)
	}
	code, err := goja.CompileAST(prg, false)
	if err != nil {
		return nil, refused("The script %s cannot be compiled: %v", name, err)
	}
	return &Program{name, code}, nil
}

// parse parses a body that is one function expression or, failing that, statements of which the first function
// declaration is the one to call.
func parse(name, body string) (*ast.Program, error) {
	expression := strings.TrimRight(body, "; \t\r\n")
	prg, err := goja.Parse(name, head+"(\n"+expression+"\n)})")
	if err == nil {
		return prg, checkShape(prg)
	}
	plain, plainErr := goja.Parse(name, body)
	if plainErr != nil {
		return nil, err
	}
	for _, s := range plain.Body {
		f, ok := s.(*ast.FunctionDeclaration)
		if !ok {
			continue
		}
		id := f.Function.Name.Name.String()
		return goja.Parse(name, head+"(function(){\n"+body+"\nreturn "+id+"})()})")
	}
	return nil, fmt.Errorf("there is no function in it")
}

// checkShape makes sure that the text of a script has not left the parentheses that it was put into.
func checkShape(prg *ast.Program) error {
	f := outer(prg)
	if f == nil || len(f.Body.List) != 1 {
		return fmt.Errorf("it is not one function")
	}
	return nil
}

// outer is the function of head, or nil.
func outer(prg *ast.Program) *ast.FunctionLiteral {
	if len(prg.Body) != 1 {
		return nil
	}
	s, ok := prg.Body[0].(*ast.ExpressionStatement)
	if !ok {
		return nil
	}
	f, ok := s.Expression.(*ast.FunctionLiteral)
	if !ok || len(f.ParameterList.List) != 1 {
		return nil
	}
	return f
}

// scan refuses texts that the parser itself takes too long or too deep a stack for. It looks at brackets outside
// strings and comments, as well as that can be told without parsing: what is hidden from it is in a regular expression
// or a template, where it nests nothing.
func scan(body string) error {
	depth, arrows, labels := 0, 0, 0
	word := true // nothing but words since the last colon
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch c {
		case '(', '[', '{':
			if depth++; depth > bracketsDeepMax {
				return fmt.Errorf("brackets lie more than %d deep in each other", bracketsDeepMax)
			}
		case ')', ']', '}':
			depth = max(0, depth-1)
		case '=':
			if strings.HasPrefix(body[i:], "=>") {
				if arrows++; arrows > arrowsMax {
					return fmt.Errorf("it has more than %d arrow functions", arrowsMax)
				}
			}
		case ':':
			if labels++; !word {
				labels = 0
			}
			if word = true; labels > labelsMax {
				return fmt.Errorf("more than %d labels or cases follow each other", labelsMax)
			}
			continue
		}
		word = word && (c <= ' ' || c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' ||
			c >= utf8.RuneSelf)
	}
	return nil
}
