// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// scheduled lists the packages that the simulator schedules. In these packages, only package sched may start
// goroutines or wait. The linter forbidigo has the same list in .golangci.yml and rejects the functions of package
// time.
var scheduled = strings.Fields(`control/autosplit control/backfill control/merge control/meta control/peers
	control/placement control/reconcile control/schemachange control/split control/throughput replica/remote
	route/coordinator query/cql/view query/cql/write`)

// unscheduled returns the go statements and the blocking select statements of a file, which the simulator cannot
// schedule.
func unscheduled(f *ast.File) (out []ast.Stmt) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, n)
		case *ast.SelectStmt:
			if !slices.ContainsFunc(n.Body.List, func(s ast.Stmt) bool { return s.(*ast.CommClause).Comm == nil }) {
				out = append(out, n)
			}
		}
		return true
	})
	return out
}

// TestScheduled checks that scheduled packages contain no statement that the simulator cannot schedule.
func TestScheduled(t *testing.T) {
	checked := map[string]bool{}
	eachFile(t, func(path string, source []byte) {
		_, inside, _ := strings.Cut(path, "internal/")
		folder := inside[:max(0, strings.LastIndex(inside, "/"))]
		if !slices.Contains(scheduled, folder) || strings.HasSuffix(path, "_test.go") {
			return
		}
		checked[folder] = true
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range unscheduled(f) {
			t.Errorf("%s: use package sched, because the simulator schedules this package", files.Position(s.Pos()))
		}
	})
	if len(checked) != len(scheduled) {
		t.Errorf("found %d of %d packages: %v", len(checked), len(scheduled), checked)
	}
}

// TestUnscheduled checks that TestScheduled can fail.
func TestUnscheduled(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
func f(c chan int) {
	go f(c)
	select {
	case <-c:
	}
	select {
	case <-c:
	default:
	}
}`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(unscheduled(f)); n != 2 {
		t.Errorf("found %d statements, want 2", n)
	}
}
