// SPDX-License-Identifier: Apache-2.0

// Package docs checks that the documentation names only files, packages, and symbols that exist.
package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// tree holds the names that the documentation may use.
type tree struct {
	// paths holds the paths of all files and folders, relative to the root. bases holds the last elements of these
	// paths.
	paths, bases map[string]bool
	// packages maps the names of packages to their folders.
	packages map[string][]string
	// symbols holds entries of the form "folder Name" and "folder Type.Member". members holds names of the form
	// "Type.Member" for all packages. types holds the names of the types.
	symbols, members, types map[string]bool
}

func readTree(t *testing.T) *tree {
	t.Helper()
	all := &tree{map[string]bool{}, map[string]bool{}, map[string][]string{}, map[string]bool{}, map[string]bool{},
		map[string]bool{}}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		rel = filepath.ToSlash(rel)
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		all.paths[rel], all.bases[path.Base(rel)] = true, true
		if !strings.HasSuffix(rel, ".go") || strings.Contains(rel, "testdata/") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all.add(path.Dir(rel), f, strings.HasSuffix(rel, "_test.go"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (a *tree) add(folder string, f *ast.File, test bool) {
	if name := f.Name.Name; !test && !slices.Contains(a.packages[name], folder) {
		a.packages[name] = append(a.packages[name], folder)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				a.symbols[folder+" "+d.Name.Name] = true
				continue
			}
			a.addMember(folder, receiver(d.Recv.List[0].Type), d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				a.addSpec(folder, s)
			}
		}
	}
}

func (a *tree) addSpec(folder string, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			a.symbols[folder+" "+n.Name] = true
		}
	case *ast.TypeSpec:
		a.symbols[folder+" "+s.Name.Name], a.types[s.Name.Name] = true, true
		var fields *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			fields = t.Fields
		case *ast.InterfaceType:
			fields = t.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				a.addMember(folder, s.Name.Name, n.Name)
			}
		}
	}
}

func (a *tree) addMember(folder, typ, name string) {
	a.symbols[folder+" "+typ+"."+name], a.members[typ+"."+name] = true, true
}

// receiver returns the type name of a method's receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	code    = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	aPath   = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+/?$`)
	goFile  = regexp.MustCompile(`^\w+\.go$`)
	symbol  = regexp.MustCompile(`^\*?([a-z]\w*)\.([A-Z]\w*(?:\.\w+)?)$`)
	member  = regexp.MustCompile(`^([A-Z]\w*)\.([A-Za-z]\w*)$`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notSlug = regexp.MustCompile(`[^\w\- ]`)
)

// missing returns the reason why the name in a code span does not exist, or "". It does not check code spans that are
// not names.
func (a *tree) missing(text string) string {
	if m := symbol.FindStringSubmatch(text); m != nil {
		folders, ours := a.packages[m[1]]
		if ours && !slices.ContainsFunc(folders, func(f string) bool { return a.symbols[f+" "+m[2]] }) {
			return "no such symbol in " + strings.Join(folders, ", ")
		}
		return ""
	}
	if m := member.FindStringSubmatch(text); m != nil {
		if a.types[m[1]] && !a.members[text] {
			return "the type has no such member"
		}
		return ""
	}
	switch {
	case goFile.MatchString(text):
		if !a.bases[text] {
			return "no such file"
		}
	case aPath.MatchString(text):
		p := strings.TrimSuffix(text, "/")
		first, _, _ := strings.Cut(p, "/")
		if first == "." || strings.Contains(p, "NNNN") || !a.paths[first] && !a.paths["internal/"+first] {
			return "" // a user's file, a placeholder, or a third-party module
		}
		if !a.paths[p] && !a.paths["internal/"+p] {
			return "no such file or folder"
		}
	}
	return ""
}

func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	if len(out) < 5 {
		t.Fatalf("found only %v: the test searches the wrong folder", out)
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNamesExist checks that every file, package, and symbol that a document names in backticks exists.
func TestNamesExist(t *testing.T) {
	all := readTree(t)
	for _, file := range documents(t) {
		for _, m := range code.FindAllStringSubmatch(fence.ReplaceAllString(read(t, file), ""), -1) {
			if why := all.missing(m[1]); why != "" {
				t.Errorf("%s: `%s`: %s", file, m[1], why)
			}
		}
	}
	for _, wrong := range []string{"storage.Nothing", "storage.Store.Nothing", "Store.Nothing", "nothing.go",
		"model/nothing", "test/nothing/x.txt"} {
		if all.missing(wrong) == "" {
			t.Errorf("the test does not detect that %s is missing", wrong)
		}
	}
}

// TestLinksResolve checks that links between documents lead to existing files and headings.
func TestLinksResolve(t *testing.T) {
	for _, file := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, file), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			name, anchor, _ := strings.Cut(m[1], "#")
			target := file
			if name != "" {
				target = filepath.Join(filepath.Dir(file), name)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: no such file", file, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: link to %s: no such heading", file, m[1])
			}
		}
	}
}

// anchors returns the link anchors of a document's headings.
func anchors(text string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out = append(out, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

// TestDecisionsAreNumbered checks that the file names and headings of decisions are numbered from 1 without gaps or
// duplicates.
func TestDecisionsAreNumbered(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "docs/rfcs/*.md"))
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "README.md" })
	if err != nil || len(files) == 0 {
		t.Fatalf("%d decisions, %v", len(files), err)
	}
	for i, file := range files {
		number := fmt.Sprintf("%04d", i+1)
		if !strings.HasPrefix(filepath.Base(file), number+"-") {
			t.Errorf("%s: expected %s here", filepath.Base(file), number)
		}
		if first, _, _ := strings.Cut(read(t, file), "\n"); !strings.Contains(first, number) {
			t.Errorf("%s: its heading is %q", filepath.Base(file), first)
		}
	}
}

// TestLayersAreDocumented checks that the first diagram of ARCHITECTURE.md shows every layer. The tables of the page
// must list all existing packages and no other packages.
func TestLayersAreDocumented(t *testing.T) {
	text := read(t, filepath.Join(root, "ARCHITECTURE.md"))
	all := readTree(t)
	var packages, layers []string
	for _, folders := range all.packages {
		for _, f := range folders {
			if p, ok := strings.CutPrefix(f, "internal/"); ok {
				packages = append(packages, p)
				layer, _, _ := strings.Cut(p, "/")
				layers = append(layers, layer)
			}
		}
	}
	var drawn, listed []string
	gap := regexp.MustCompile(`\s{2,}`)
	_, picture, _ := strings.Cut(strings.Trim(fence.FindString(text), "`"), "\n")
	for line := range strings.Lines(picture) {
		for _, name := range gap.Split(strings.TrimSpace(line), -1) {
			if name != "" && name != "|" && !strings.Contains(name, " ") { // text with several words is an explanation
				drawn = append(drawn, name)
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(text, -1) {
		for _, name := range code.FindAllStringSubmatch(m[1], -1) {
			if strings.Contains(name[1], "/") && !all.paths[name[1]] || slices.Contains(packages, name[1]) {
				listed = append(listed, name[1]) // internal/node, for example, is not a folder name
			}
		}
	}
	for _, l := range layers {
		if !slices.Contains(drawn, l) {
			t.Errorf("the layer %s is not in the diagram", l)
		}
	}
	for _, name := range drawn {
		if !slices.Contains(layers, name) && !all.paths[name] {
			t.Errorf("the diagram shows %s, which does not exist", name)
		}
	}
	for _, p := range packages {
		if !slices.Contains(listed, p) {
			t.Errorf("%s is not in a table", p)
		}
	}
	for _, p := range listed {
		if !slices.Contains(packages, p) {
			t.Errorf("a table lists %s, which does not exist", p)
		}
	}
}

var (
	promise = regexp.MustCompile(`(?m)^\| .* \| (.*) \|$`)
	proof   = regexp.MustCompile("`([a-z/]+)`|\\b(Test\\w+)|\\b([a-z]+\\.txtar)\\b")
)

// TestPromisesHaveTests checks that each guarantee on the pages about security and consistency names an existing test.
func TestPromisesHaveTests(t *testing.T) {
	all := readTree(t)
	all.havePromisesTests(t, "docs/security.md", "| against | promise | test |\n|---|---|---|\n", 10)
	all.havePromisesTests(t, "docs/consistency.md", "| Guarantee | Test |\n|---|---|\n", 7)
}

// havePromisesTests checks the table of a page that has this header and at least the given number of rows.
func (a *tree) havePromisesTests(t *testing.T, page, head string, least int) {
	_, table, found := strings.Cut(read(t, filepath.Join(root, page)), head)
	if !found {
		t.Fatal("found no table of guarantees in", page)
	}
	rows := promise.FindAllStringSubmatch(table, -1)
	if len(rows) < least {
		t.Errorf("%s has %d promises", page, len(rows))
	}
	for _, row := range rows {
		folder, tests := "", 0
		for _, m := range proof.FindAllStringSubmatch(row[1], -1) {
			switch {
			case m[1] != "":
				folder = m[1]
				continue
			case m[2] != "" && !a.symbols[folder+" "+m[2]] && !a.symbols["internal/"+folder+" "+m[2]]:
				t.Errorf("%s: %s does not exist in %s", row[0], m[2], folder)
			case m[3] != "" && !a.bases[m[3]]:
				t.Errorf("%s: %s does not exist", row[0], m[3])
			}
			tests++
		}
		if tests == 0 {
			t.Errorf("%s: no test", row[0])
		}
	}
}
