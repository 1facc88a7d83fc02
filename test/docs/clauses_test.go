// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const clausesPage = root + "/docs/dev/clauses.md"

// clauseTypes lists the types of the syntax tree that hold clauses, in addition to the statements.
var clauseTypes = []string{"Using", "RoleOptions", "TableOptions", "ColumnDef", "Ordering", "Selector", "IndexTarget",
	"Let", "Step"}

// operands lists the fields that are not clauses. Such fields hold the subject of a statement or a notation. An entry
// applies to all types or to one type.
var operands = []string{"Added", "AlterRole.Options", "Args", "Body", "Column", "Columns", "Container",
	"CreateRole.Options", "CreateTable.Options", "CreateView.Options", "Dropped", "Field", "Fields", "Grantee",
	"HasArgs", "HasClass", "Identity", "Keyspace", "Name", "Procedure", "Resource", "Role", "Statements",
	"Table", "Term", "TimeoutAfter", "TTLFirst", "Type", "Using", "Values"}

var (
	quotedText = regexp.MustCompile("`([^`]+)`")
	clauseWord = regexp.MustCompile(`[A-Z]{2,}`)
)

// TestClauses checks that docs/dev/clauses.md names an existing test for each CQL clause that the parser accepts. The
// files with statements must contain the clause.
func TestClauses(t *testing.T) {
	text, err := os.ReadFile(clausesPage)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || strings.HasPrefix(line, "| Clause") {
			continue
		}
		if len(cells) != 3 {
			t.Errorf("%d cells, want 3: %s", len(cells), line)
			continue
		}
		for _, f := range quotedText.FindAllStringSubmatch(cells[1], -1) {
			named[f[1]] = true
		}
		checkTests(t, cells[0], cells[2])
	}
	fields := clauseFields(t)
	for _, f := range fields {
		if !named[f] {
			t.Errorf("%s is not in %s: add a row that names a test of the clause", f, clausesPage)
		}
	}
	for f := range named {
		if !slices.Contains(fields, f) {
			t.Errorf("%s of %s is not a clause of the parser", f, clausesPage)
		}
	}
}

// checkTests checks that the tests of a row exist. Each test is a file, or a function in a folder.
func checkTests(t *testing.T, clauses, tests string) {
	t.Helper()
	refs := quotedText.FindAllStringSubmatch(tests, -1)
	found := false
	for i := 0; i < len(refs); i++ {
		ref := refs[i][1]
		switch {
		case strings.HasPrefix(ref, "Test") && i+1 < len(refs):
			i++
			found = found || hasTest(t, refs[i][1], ref)
			if !hasTest(t, refs[i][1], ref) {
				t.Errorf("%s: %s does not exist in %s", clauses, ref, refs[i][1])
			}
		case strings.Contains(ref, "/"):
			found = true
			text, err := os.ReadFile(filepath.Join(root, ref))
			if err != nil {
				t.Errorf("%s: %v", clauses, err)
			} else if !hasClause(strings.ToUpper(string(text)), clauses) {
				t.Errorf("%s contains none of the clauses %s", ref, clauses)
			}
		}
	}
	if !found {
		t.Errorf("%s: no test in %q", clauses, tests)
	}
}

// hasClause reports whether a text contains all words of one of the clauses.
func hasClause(text, clauses string) bool {
	return slices.ContainsFunc(quotedText.FindAllStringSubmatch(clauses, -1), func(c []string) bool {
		return !slices.ContainsFunc(clauseWord.FindAllString(c[1], -1), func(w string) bool {
			return !strings.Contains(text, w)
		})
	})
}

// hasTest reports whether a folder has a test function.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "func "+name+"(")
	})
}

// clauseFields lists the fields of the syntax tree that hold clauses, as "Type.Field".
func clauseFields(t *testing.T) (out []string) {
	t.Helper()
	files, err := filepath.Glob(root + "/internal/query/cql/parser/*.go")
	if err != nil {
		t.Fatal(err)
	}
	types, structs := slices.Clone(clauseTypes), map[string]*ast.StructType{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "statement" && d.Recv != nil {
					types = append(types, receiver(d.Recv.List[0].Type))
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						if st, ok := s.Type.(*ast.StructType); ok {
							structs[s.Name.Name] = st
						}
					}
				}
			}
		}
	}
	for _, name := range types {
		if structs[name] == nil {
			continue
		}
		for _, f := range structs[name].Fields.List {
			for _, n := range f.Names {
				field := name + "." + n.Name
				if n.IsExported() && !slices.Contains(operands, n.Name) && !slices.Contains(operands, field) {
					out = append(out, field)
				}
			}
		}
	}
	return out
}
