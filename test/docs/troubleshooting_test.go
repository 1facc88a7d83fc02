// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// said holds the texts of the program. all contains every constant string in the code, and refusals contains the texts
// with which an overloaded node rejects requests.
type said struct{ all, refusals []string }

func readTexts(t *testing.T) (out said) {
	t.Helper()
	for _, wing := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, wing), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err == nil {
				out.read(f)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (s *said) read(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CompositeLit); ok {
			if sel, ok := c.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Overloaded" {
				for _, e := range c.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if text := constant(kv.Value); text != "" {
							s.refusals = append(s.refusals, text)
						}
					}
				}
			}
		}
		if e, ok := n.(ast.Expr); ok {
			if text := constant(e); text != "" {
				s.all = append(s.all, text)
				return false
			}
		}
		return true
	})
}

// constant returns the value of a string constant or of a concatenation of string constants, or "" for any other
// expression.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if x, y := constant(e.X), constant(e.Y); x != "" && y != "" {
			return x + y
		}
	}
	return ""
}

// says reports whether one text of the program contains all pieces of another text in order.
func (s *said) says(text string) bool {
next:
	for _, have := range s.all {
		for piece := range strings.SplitSeq(text, "...") {
			_, rest, ok := strings.Cut(have, strings.TrimSpace(piece))
			if !ok {
				continue next
			}
			have = rest
		}
		return true
	}
	return false
}

var firstCell = regexp.MustCompile("(?m)^\\| (`.*?`) \\| .* \\| .* \\|$")

// TestTroubleshooting checks that the program contains every text that docs/troubleshooting.md explains. The page must
// explain every text with which an overloaded node rejects requests.
func TestTroubleshooting(t *testing.T) {
	page := read(t, filepath.Join(root, "docs/troubleshooting.md"))
	texts := readTexts(t)
	explained := 0
	for _, row := range firstCell.FindAllStringSubmatch(page, -1) {
		for _, m := range code.FindAllStringSubmatch(row[1], -1) {
			explained++
			if !texts.says(m[1]) {
				t.Errorf("no code contains the text %q", m[1])
			}
		}
	}
	if explained < 80 {
		t.Errorf("only %d texts are explained", explained)
	}
	if texts.says("another process uses ... nothing") || texts.says("an error that there is not") {
		t.Error("the test does not detect that a text is missing")
	}
	if len(texts.refusals) < 10 {
		t.Errorf("found only %d rejection texts", len(texts.refusals))
	}
	for _, text := range texts.refusals {
		if !strings.Contains(page, "`"+strings.TrimSpace(text)) {
			t.Errorf("%q is not explained", text)
		}
	}
}
