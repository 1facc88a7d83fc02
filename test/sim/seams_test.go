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

// seams maps the types of the simulator that replace a type of the product to the reason for the replacement.
var seams = map[string]string{
	"fakeTransport":   "transports requests over the simulated network, as transport.Transport does over connections",
	"exchange":        "one request of a fakeTransport",
	"responder":       "one response of a fakeTransport",
	"clusterNode":     "a node as package membership sees it, as package node has it",
	"peerObserver":    "a node as package peers sees it, as package node has it",
	"replicaObserver": "a node as package partition sees it, as package node has it",
	"driver":          "schedules the steps of raftgroup in the simulated environment, as Runner does with goroutines",
	"node":            "a machine and the process on it",
	"client":          "a client",
	"answer":          "a coordinator's response to a client",
	"ending":          "a client's completion",
	"viewer":          "a client's visitor",
	"txn":             "the requests and results of a client's transaction",
	"stateViewer":     "a client's visitor",
	"transactionRun":  "the programs of the clients' transactions",
	"spender":         "a client's visitor and completion that receives costs",
	"rowsViewer":      "a client's visitor",
	"answered":        "a client's completion",
	"baseNames":       "looks up tables of statements in a client's schema",
	"change":          "a schema change that a client requests",
	"control":         "the parts of a node that package control provides",
	"notes":           "writes log messages to the trace",
	"network":         "wraps the client of other nodes, as package node does",
	"growthLimits":    "the size limits of a run's tables, as the options of tables set them",
	"replicas":        "the host as package reconcile sees it, as package node has it",
	"Report":          "a run's",
	"Counts":          "a run's",

	"tableWithoutRequire": "planted", "machineWithoutSync": "planted",
}

// namesOf returns the exported types, functions, and methods of packages.
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

// imitations returns the definitions in a file that duplicate the product. These are types that have the name of a
// product type, and functions that have the name of a product function and do not call it. Definitions that belong to
// a seam are omitted.
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

// receiver returns the type name of a method's receiver.
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

// calls reports whether a function calls another function with its own name.
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

// TestNothingIsImitated checks that the simulator runs the product. The simulator must import the packages that
// package node assembles, and must not duplicate code of control, replica, or route. The bugs in bugs.go must wrap
// product code.
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
			t.Errorf("%s defines %s: use the product's code instead", name, what)
		}
	}
	const internal = "github.com/ilion-db/ilion/internal/"
	for _, want := range strings.Fields(`replica/raftgroup replica/raftlog replica/partition replica/storage replica/remote
		replica/incarnation control/meta control/placement control/reconcile control/membership control/peers control/schemachange
		control/backfill route/coordinator model/sched query/cql/catalog query/cql/write`) {
		if !imports[internal+want] {
			t.Errorf("the simulator does not run %s", want)
		}
	}
	for got := range imports {
		if strings.HasPrefix(got, "go.etcd.io/raft/v3") && !strings.HasSuffix(got, "/raftpb") ||
			got == "github.com/cockroachdb/pebble/v2" {
			t.Errorf("the simulator must not import %s: consensus and storage belong to the product", got)
		}
	}
}

// TestImitationsAreNoticed checks that TestNothingIsImitated can fail.
func TestImitationsAreNoticed(t *testing.T) {
	types, funcs := namesOf(t, "../../internal/control/*/*.go", "../../internal/route/*/*.go")
	f, err := parser.ParseFile(token.NewFileSet(), "imitation.go", `package sim
type keeper struct{}
type replayer struct{}
func (n *keeper) Update() {}
func (m member) Admit() error { return nil }
func ConditionalWrite() {}
type counted struct{}
func (c counted) ChangeMembers() error { return c.Replica.ChangeMembers() }
func (c *fakeTransport) Forget() {}
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, what := range imitations(f, types, funcs) {
		got = append(got, strings.Split(what, ",")[0])
	}
	if want := []string{"the type keeper", "the type replayer", "Update", "Admit",
		"ConditionalWrite"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
