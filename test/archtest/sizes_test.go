// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// These are the maximum sizes of types and functions.
const (
	methodsMax = 40
	fieldsMax  = 25
	linesMax   = 70
)

// size holds the number of methods and fields of a type, or the number of lines of a function.
type size struct{ methods, fields, lines int }

// exception allows a type or function to exceed a limit up to the given size. It contains the reason.
type exception struct {
	size
	reason string
}

// javaTable is the reason for functions that only declare Java classes.
const javaTable = "a table of Java methods in the form of code"

// sizeExceptions lists the types and functions above a limit.
var sizeExceptions = map[string]exception{
	"query/cql/parser.parser":         {size{methods: 161}, "a recursive-descent parser: one method for each rule of the grammar"},
	"query/cql/parser.printer":        {size{methods: 48}, "the reverse of the parser: one method for each kind of statement"},
	"query/function/java.compiler":    {size{methods: 46}, "a recursive-descent compiler: one method for each construct"},
	"query/function/java.defBig":      {size{lines: 116}, javaTable},
	"query/function/java.defBoxes":    {size{lines: 114}, javaTable},
	"query/function/java.defBuilders": {size{lines: 82}, javaTable},
	"query/function/java.defMaps":     {size{lines: 84}, javaTable},
	"query/function/java.init":        {size{lines: 128}, javaTable},
	"model/compat.Release":            {size{fields: 35}, "a table of differences between Cassandra releases: one field for each"},
	"replica/storage.Metrics":         {size{fields: 28}, "a table of counters: one field for each metric"},
	"node/options.Options":            {size{fields: 30}, "the configuration file: one field for each option at its top level"},
}

// TestSizes checks the sizes of the product's types and functions. It also checks that no exception is larger than
// necessary.
func TestSizes(t *testing.T) {
	sizes := productSizes(t)
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		got, allowed := sizes[name], sizeExceptions[name]
		check := func(unit string, got, limit, most int) {
			switch {
			case got > max(limit, most):
				t.Errorf("%s has %d %s, the limit is %d", name, got, unit, max(limit, most))
			case most > 0 && got < most:
				t.Errorf("%s has %d %s: lower or remove its exception of %d", name, got, unit, most)
			}
		}
		check("methods", got.methods, methodsMax, allowed.methods)
		check("fields", got.fields, fieldsMax, allowed.fields)
		check("lines", got.lines, linesMax, allowed.lines)
	}
	for name := range sizeExceptions {
		if _, ok := sizes[name]; !ok {
			t.Errorf("the exception %s does not exist", name)
		}
	}
}

// productSizes returns the sizes of the types and functions of the product. The names of functions include the package
// and the receiver. An embedded field counts as one.
func productSizes(t *testing.T) map[string]size {
	sizes := map[string]size{}
	eachFile(t, func(path string, source []byte) {
		rel, ok := strings.CutPrefix(filepath.ToSlash(path), "../../internal/")
		if !ok || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.ToSlash(filepath.Dir(rel)) + "."
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				lines := files.Position(d.End()).Line - files.Position(d.Pos()).Line + 1
				name := pkg + d.Name.Name
				if owner := receiverName(d); owner != "" {
					of := sizes[pkg+owner]
					of.methods++
					sizes[pkg+owner] = of
					name = pkg + owner + "." + d.Name.Name
				}
				sizes[name] = size{sizes[name].methods, sizes[name].fields, max(sizes[name].lines, lines)}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if typ, ok := s.(*ast.TypeSpec); ok {
						of := sizes[pkg+typ.Name.Name]
						of.fields += fieldCount(typ.Type)
						sizes[pkg+typ.Name.Name] = of
					}
				}
			}
		}
	})
	return sizes
}

// receiverName returns the name of the type of a method, or an empty string for a function.
func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	if g, ok := typ.(*ast.IndexExpr); ok {
		typ = g.X
	}
	name, _ := typ.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// fieldCount returns the number of fields of a structure, and 0 for other types.
func fieldCount(typ ast.Expr) int {
	s, ok := typ.(*ast.StructType)
	if !ok {
		return 0
	}
	n := 0
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}
