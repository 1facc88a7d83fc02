// SPDX-License-Identifier: Apache-2.0

// Package archtest tests the structure of the code. Tables define the allowed imports and sizes.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ilion-db/ilion/"

// layers lists the layers from the top down. A package may import packages of lower layers, but never of a higher
// layer. It may import packages of the same layer if withinLayer allows it. route and control must not import each
// other.
var layers = [][]string{
	{"cmd/ilion"},
	{"root", "internal/tool"},
	{"internal/node"},
	{"internal/server"},
	{"internal/query"},
	{"internal/route", "internal/control"},
	{"internal/replica"},
	{"internal/model"},
}

// withinLayer lists the packages of the same layer that a package may import. withinLayer applies to layers with
// sublayers. A package without an entry must not import any package of its layer.
var withinLayer = map[string]string{
	"internal/server/cql":          "internal/server/cqlwire internal/server/admission",
	"internal/node/metadata":       "",
	"internal/node/options":        "internal/node/process",
	"internal/node/engines":        "internal/node/options",
	"internal/node/certificates":   "internal/node/options",
	"internal/node/joinsecret":     "internal/node/options",
	"internal/node/diagnostics":    "",
	"internal/node/process":        "",
	"internal/node/lifecycle":      "",
	"internal/node/listeners":      "internal/node/options",
	"internal/node/account":        "internal/node/lifecycle internal/node/listeners internal/node/options",
	"internal/node/sweep":          "",
	"internal/node/backup":         "",
	"internal/tool/bench":          "internal/tool/rawclient",
	"internal/tool/backup":         "internal/tool/bucket",
	"internal/tool/bucket":         "",
	"internal/model/archive":       "internal/model/feature",
	"internal/replica/snapshotset": "internal/replica/partition",
	"internal/tool/bulk":           "internal/tool/rawclient internal/tool/bulk/pipeline internal/tool/bulk/text",
	"internal/tool/bulk/pipeline":  "internal/tool/rawclient",
	"internal/tool/migration": "internal/tool/bulk internal/tool/bulk/pipeline internal/tool/migration/rowdiff " +
		"internal/tool/migration/schemadiff",
	"internal/tool/migration/rowdiff":    "internal/tool/bulk internal/tool/rawclient",
	"internal/tool/migration/schemadiff": "internal/tool/bulk",
	"internal/tool/shell": "internal/tool/rawclient internal/tool/shell/statement internal/tool/shell/display " +
		"internal/tool/shell/completion",
	"internal/tool/shell/completion": "internal/tool/shell/statement",
	"internal/query/cql/catalog":     "internal/query/cql/parser internal/query/cql/slowlog",
	"internal/query/cql/slowlog":     "internal/query/cql/parser",
	"internal/query/cql/expr":        "internal/query/cql/parser internal/query/cql/catalog",
	"internal/query/cql/relation":    "internal/query/cql/parser internal/query/cql/expr",
	"internal/query/cql/read": "internal/query/cql/parser internal/query/cql/catalog internal/query/cql/expr " +
		"internal/query/cql/relation internal/query/cql/guardrail internal/query/changefeed",
	"internal/query/cql/write": "internal/query/cql/parser internal/query/cql/catalog internal/query/cql/expr " +
		"internal/query/cql/relation internal/query/cql/guardrail internal/query/cql/view",
	"internal/query/cql/view": "internal/query/cql/catalog internal/query/cql/parser internal/query/cql/expr internal/query/cql/relation",
	"internal/query/cql/transaction": "internal/query/cql/parser internal/query/cql/catalog " +
		"internal/query/cql/expr internal/query/cql/read internal/query/cql/write internal/query/cql/guardrail",
	"internal/query/container": "internal/query/cql/catalog internal/query/cql/expr internal/query/changefeed " +
		"internal/query/container/sql",
	"internal/query/changefeed":  "",
	"internal/query/cql/explain": "internal/query/cql/expr internal/query/cql/read internal/query/cql/write",
	"internal/query/cql/ddl": "internal/query/cql/parser internal/query/cql/catalog internal/query/cql/expr " +
		"internal/query/cql/guardrail internal/query/cql/relation internal/query/cql/view",
	"internal/query/cql/session": "internal/query/cql/roles internal/query/cql/parser internal/query/cql/catalog " +
		"internal/query/cql/expr internal/query/cql/read internal/query/cql/write internal/query/cql/ddl " +
		"internal/query/cql/guardrail internal/query/cql/explain internal/query/cql/transaction " +
		"internal/query/function/call internal/query/container internal/query/cql/view " +
		"internal/query/cql/slowlog",
	"internal/query/function/call": "internal/query/cql/parser internal/query/cql/expr internal/query/container " +
		"internal/query/function/script",
	"internal/query/cql/guardrail":   "",
	"internal/query/function/script": "internal/query/container internal/query/container/sql",
	"internal/query/cql/roles":       "internal/query/cql/parser internal/query/cql/catalog",
	"internal/query/function/java":   "",
	"internal/query/function": "internal/query/cql/expr internal/query/function/java " +
		"internal/query/function/script",
	"internal/query/container/sql": "",
	"internal/control/advise":      "",
	"internal/control/placement":   "internal/control/meta",
	"internal/control/split":       "internal/control/meta",
	"internal/control/autosplit": "internal/control/clusterquery internal/control/merge internal/control/meta " +
		"internal/control/split internal/control/throughput",
	"internal/control/throughput": "internal/control/meta internal/control/split",
	"internal/control/merge": "internal/control/meta internal/control/placement internal/control/split " +
		"internal/control/throughput",
	"internal/control/meta":         "",
	"internal/control/backfill":     "internal/control/meta internal/control/peers",
	"internal/control/schemachange": "internal/control/backfill internal/control/membership internal/control/meta",
	"internal/control/lending":      "internal/control/clusterquery internal/control/meta internal/control/throughput",
	"internal/control/lograte":      "",
	"internal/node/stats":           "",
	"internal/control/clusterquery": "internal/control/meta internal/control/peers",
	"internal/control/regions":      "internal/control/meta",
	"internal/control/membership": "internal/control/lograte internal/control/meta " +
		"internal/control/peers internal/control/placement internal/control/throughput",
	"internal/control/recovery": "internal/control/meta internal/control/membership internal/control/placement",
	"internal/control/operations": "internal/control/membership internal/control/meta internal/control/merge " +
		"internal/control/placement internal/control/reconcile internal/control/split",
	"internal/replica/budget":         "",
	"internal/replica/incarnation":    "",
	"internal/replica/pebblecheck":    "",
	"internal/replica/diskfs":         "",
	"internal/replica/encryption":     "",
	"internal/replica/partitioncount": "internal/replica/partition internal/replica/storage",
	"internal/replica/quota":          "internal/replica/partition internal/replica/storage",
	"internal/replica/storage":        "internal/replica/diskfs internal/replica/pebblecheck",
	"internal/replica/raftlog":        "internal/replica/diskfs internal/replica/pebblecheck",
	"internal/replica/usage":          "",
	"internal/replica/partition": "internal/replica/budget internal/replica/changebuffer internal/replica/usage " +
		"internal/replica/storage internal/replica/raftgroup internal/replica/raftlog",
	"internal/replica/changebuffer": "",
	"internal/replica/remote": "internal/replica/partition internal/replica/rpc " +
		"internal/replica/transport",
	"internal/replica/rpc":       "internal/replica/transport",
	"internal/control/reconcile": "internal/control/meta internal/control/placement",
	"internal/model/access":      "internal/model/codec internal/model/dberr internal/model/feature",
	"internal/model/dbresource":  "internal/model/codec internal/model/feature",
	"internal/model/row":         "internal/model/cqltype",
	"internal/model/schema": "internal/model/cqltype internal/model/dberr internal/model/epk " +
		"internal/model/feature internal/model/keys internal/model/compat internal/model/row " +
		"internal/model/token internal/model/vector",
	"internal/model/epk":  "internal/model/token",
	"internal/model/keys": "internal/model/codec internal/model/feature internal/model/token",
	"internal/model/command": "internal/model/codec internal/model/cqltype internal/model/dberr " +
		"internal/model/feature internal/model/keys internal/model/row internal/model/fairshare " +
		"internal/model/token",
	"internal/model/topology": "internal/model/codec internal/model/feature internal/model/token " +
		"internal/model/keys",
	"internal/model/ru":          "internal/model/command internal/model/dberr internal/model/row internal/model/vector",
	"internal/model/cqltype":     "internal/model/dberr internal/model/document",
	"internal/model/codec":       "",
	"internal/model/token":       "",
	"internal/model/dberr":       "",
	"internal/model/document":    "",
	"internal/model/geo":         "internal/model/document",
	"internal/model/feature":     "",
	"internal/model/fulltext":    "",
	"internal/model/invariant":   "",
	"internal/model/compat":      "",
	"internal/model/sched":       "",
	"internal/model/meter":       "internal/model/dberr internal/model/fairshare internal/model/sched",
	"internal/model/pattern":     "",
	"internal/model/trace":       "",
	"internal/model/vector":      "internal/model/codec",
	"internal/server/cqlwire":    "",
	"internal/server/admission":  "",
	"internal/server/nodeevents": "",
	"internal/server/login":      "",
	"internal/server/httpwire":   "",
	"internal/server/httpguard":  "internal/server/httpwire",
	"internal/server/rest":       "internal/server/httpwire",
	"internal/server/audit":      "internal/server/cqlwire internal/server/rest",
	"internal/server/admin":      "internal/server/cql internal/server/cqlwire internal/server/rest",
	"internal/server/webui":      "internal/server/admin",
	"internal/query/cql/parser":  "",
	"internal/replica/transport": "",
	"internal/route/coordinator": "",
	"internal/tool/rawclient":    "",
}

// modelLibraries lists the packages outside the standard library that the model may import. They provide numbers and
// IDs, the compression of model/archive, the geometry of model/geo, the text analysis of model/fulltext, and the boot
// clock of model/sched.
var modelLibraries = []string{"github.com/cockroachdb/apd/v3", "github.com/google/uuid", "golang.org/x/sys/unix",
	"golang.org/x/sys/cpu", "github.com/golang/geo/s2", "github.com/klauspost/compress/zstd",
	"github.com/blevesearch/snowballstem", "github.com/blevesearch/snowballstem/english",
	"github.com/blevesearch/snowballstem/french", "github.com/blevesearch/snowballstem/german",
	"github.com/blevesearch/snowballstem/italian", "github.com/blevesearch/snowballstem/portuguese",
	"github.com/blevesearch/snowballstem/spanish", "github.com/clipperhouse/uax29/v2/words",
	"golang.org/x/text/unicode/norm"}

func layerOf(pkg string) int {
	for i, names := range layers {
		for _, w := range names {
			if pkg == w || strings.HasPrefix(pkg, w+"/") {
				return i
			}
		}
	}
	return -1
}

// imports returns the imported paths of all non-test files of the module by package.
func imports(t *testing.T, root string) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" ||
			d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg, _ := filepath.Rel(root, filepath.Dir(path))
		if pkg = filepath.ToSlash(pkg); pkg == "." {
			pkg = "root"
		}
		if out[pkg] == nil {
			out[pkg] = map[string]bool{}
		}
		for _, s := range f.Imports {
			p, _ := strconv.Unquote(s.Path.Value)
			out[pkg][p] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestImportsPointDown checks that the tables allow every import of the product.
func TestImportsPointDown(t *testing.T) {
	all := imports(t, "../..")
	if len(all) < 10 {
		t.Fatalf("found only %d packages: the test searches the wrong folder", len(all))
	}
	pkgs := make([]string, 0, len(all))
	for p := range all {
		pkgs = append(pkgs, p)
	}
	sort.Strings(pkgs)
	for _, pkg := range pkgs {
		if strings.HasPrefix(pkg, "test/") || strings.HasPrefix(pkg, "tools") {
			continue
		}
		from := layerOf(pkg)
		if from < 0 {
			t.Errorf("%s is not in any layer", pkg)
			continue
		}
		for imp := range all[pkg] {
			if msg := checkImport(pkg, from, imp); msg != "" {
				t.Errorf("%s imports %s: %s", pkg, imp, msg)
			}
		}
	}
}

// checkImport returns the reason why package pkg in layer from must not import imp, or "".
func checkImport(pkg string, from int, imp string) string {
	if imp+"/" == module {
		imp = module + "root"
	}
	own, inside := strings.CutPrefix(imp, module)
	if !inside {
		if strings.HasPrefix(pkg, "internal/model/") && strings.Contains(strings.SplitN(imp, "/", 2)[0], ".") {
			for _, ok := range modelLibraries {
				if imp == ok {
					return ""
				}
			}
			return "the model may import only the standard library and the packages in modelLibraries"
		}
		return ""
	}
	to := layerOf(own)
	switch {
	case to < 0:
		return "it is not in any layer"
	case to < from:
		return "a package must not import a higher layer"
	case to == from:
		if pkg == "internal/node" && strings.HasPrefix(own, "internal/node/") {
			return "" // the composition root may import all packages below it
		}
		for _, ok := range strings.Fields(withinLayer[pkg]) {
			if ok == own {
				return ""
			}
		}
		return "withinLayer does not allow this import within the layer"
	}
	return ""
}
