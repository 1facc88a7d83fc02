// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// seams are the types of the simulator that stand where the product has something else, and why.
var seams = map[string]string{
	"carrier":        "carries requests over the world's network, as remote.NewTransport does over connections",
	"exchange":       "one request of a carrier",
	"responder":      "one answer of a carrier",
	"driver":         "has the world draw when the steps of raftgroup run, as Runner does with goroutines",
	"node":           "a machine and the process on it",
	"client":         "a client",
	"answer":         "a coordinator's answer to a client",
	"ending":         "a client's completion",
	"viewer":         "a client's visitor",
	"txn":            "what a client asks for in a transaction, and sees",
	"stateViewer":    "a client's visitor",
	"transactionRun": "what the transactions of clients do",
	"spender":        "a client's visitor and completion that hears prices",
	"rowsViewer":     "a client's visitor",
	"answered":       "a client's completion",
	"baseNames":      "finds the table of statements in the schema that a client has",
	"change":         "a change of the schema that a client asks for",
	"notes":          "enters what is logged into the trace",
	"replicas":       "the host as package reconcile sees it, as package node has it",
	"Report":         "a run's",
	"Counts":         "a run's",

	"tableWithoutRequire": "planted", "machineWithoutSync": "planted",
}

// namesOf are the exported types, functions and methods of packages.
func namesOf(t *testing.T, patterns ...string) (types, funcs map[string]string) {
	t.Helper()
	types, funcs = map[string]string{}, map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 10 {
			t.Fatal(pattern, files, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			pkg := filepath.Base(filepath.Dir(name))
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Name.IsExported() {
						funcs[d.Name.Name] = pkg
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						if typ, ok := s.(*ast.TypeSpec); ok && typ.Name.IsExported() {
							types[strings.ToLower(typ.Name.Name)] = pkg
						}
					}
				}
			}
		}
	}
	return types, funcs
}

// imitations lists what a file defines that the product has: a type by the name of one of its types, and a function by
// the name of one of its functions that does not come down to a call of that, unless it belongs to a seam.
func imitations(f *ast.File, types, funcs map[string]string) (out []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			pkg, has := funcs[d.Name.Name]
			if has && seams[receiver(d)] == "" && !calls(d) && d.Name.Name != "String" {
				out = append(out, fmt.Sprintf("%s, which %s has", d.Name.Name, pkg))
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if typ, ok := s.(*ast.TypeSpec); ok && types[strings.ToLower(typ.Name.Name)] != "" &&
					seams[typ.Name.Name] == "" {
					out = append(out, fmt.Sprintf("the type %s, which %s has", typ.Name.Name,
						types[strings.ToLower(typ.Name.Name)]))
				}
			}
		}
	}
	return out
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	name, _ := typ.(*ast.Ident)
	return name.String()
}

// calls reports whether a function calls another one of its name.
func calls(d *ast.FuncDecl) (found bool) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		found = found || ok && selector.Sel.Name == d.Name.Name
		return true
	})
	return found
}

// TestNothingIsImitated proves that the simulator runs the product: what package node composes is imported, and nothing
// that control, replica or route have is defined here a second time. What bugs.go plants wraps the product's.
func TestNothingIsImitated(t *testing.T) {
	wings := []string{"../../internal/control/*/*.go", "../../internal/replica/*/*.go", "../../internal/route/*/*.go"}
	types, funcs := namesOf(t, wings...)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	imports := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			imports[strings.Trim(i.Path.Value, `"`)] = true
		}
		for _, what := range imitations(f, types, funcs) {
			t.Errorf("%s defines %s: the simulator runs the product's", name, what)
		}
	}
	const internal = "github.com/ilion-db/ilion/internal/"
	for _, want := range strings.Fields(`replica/raftgroup replica/raftlog replica/partition replica/storage replica/remote
		replica/incarnation control/meta control/placement control/reconcile control/membership control/peers control/schemachange
		control/backfill route/coordinator model/sched query/catalog query/write`) {
		if !imports[internal+want] {
			t.Errorf("the simulator does not run %s", want)
		}
	}
	for got := range imports {
		if strings.HasPrefix(got, "go.etcd.io/raft/v3") && !strings.HasSuffix(got, "/raftpb") ||
			got == "github.com/cockroachdb/pebble/v2" {
			t.Errorf("the simulator imports %s: consensus and storage are the product's business", got)
		}
	}
}

// TestImitationsAreNoticed proves that the test before this one can fail.
func TestImitationsAreNoticed(t *testing.T) {
	types, funcs := namesOf(t, "../../internal/control/*/*.go", "../../internal/route/*/*.go")
	f, err := parser.ParseFile(token.NewFileSet(), "imitation.go", `package sim
type keeper struct{}
type replayer struct{}
func (n *keeper) Update() {}
func (m member) Admit() error { return nil }
func Decide() {}
type counted struct{}
func (c counted) ChangeMembers() error { return c.Replica.ChangeMembers() }
func (c *carrier) Forget() {}
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, what := range imitations(f, types, funcs) {
		got = append(got, strings.Split(what, ",")[0])
	}
	if want := []string{"the type keeper", "the type replayer", "Update", "Admit", "Decide"}; !slices.Equal(got, want) {
		t.Errorf("noticed %q, want %q", got, want)
	}
}
