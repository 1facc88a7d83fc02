// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
)

// Program is the compiled body of a script. It is immutable and safe for concurrent use.
type Program struct {
	name string
	code *goja.Program
}

// These constants limit the input of the compiler. The running time of the compiler is quadratic in the nesting depth
// of an expression, and the compiler cannot be interrupted.
const (
	bracketsDeepMax = 200
	arrowsMax       = 1000
	labelsMax       = 500
	nodesDeepMax    = 1500
	templateMax     = 16
	patternMax      = 2000
	// repeatsMax is the maximum product of a pattern's length and its counted repetitions.
	repeatsMax = 20_000
)

// head is the beginning of each script's program. guardName replaces the name of the parameter in head. A script cannot
// contain guardName.
const (
	head      = "(function(guard){return "
	guardName = "\x00guard"
)

// compile compiles the body of a script. The body is a function expression or declaration, optionally followed by
// further declarations. Error messages contain name.
func compile(name, body string) (*Program, error) {
	if len(body) > BodyBytesMax {
		return nil, refused("The script %s has %d bytes; the limit is %d.", name, len(body), BodyBytesMax)
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

// finish hardens a parsed script and compiles it.
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

// parse parses the body as a function expression. If this fails, it parses the body as a list of statements. The first
// function declaration in the list is the entry point.
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
	return nil, fmt.Errorf("it does not contain a function")
}

// checkShape checks that the text of a script has not closed the parentheses around it.
func checkShape(prg *ast.Program) error {
	f := outer(prg)
	if f == nil || len(f.Body.List) != 1 {
		return fmt.Errorf("it is not a single function")
	}
	return nil
}

// outer returns the function literal of head, or nil.
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

// scan rejects texts that would require too much time or stack space in the parser. It counts brackets outside strings
// and comments. It also counts brackets in regular expressions and templates, where brackets do not nest.
func scan(body string) error {
	depth, arrows, labels := 0, 0, 0
	word := true // the text since the last colon contains only words
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch c {
		case '(', '[', '{':
			if depth++; depth > bracketsDeepMax {
				return fmt.Errorf("brackets are nested more than %d levels deep", bracketsDeepMax)
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
				return fmt.Errorf("it has more than %d consecutive labels or cases", labelsMax)
			}
			continue
		}
		word = word && (c <= ' ' || c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' ||
			c >= utf8.RuneSelf)
	}
	return nil
}
