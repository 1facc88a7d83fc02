// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/test/sim/planted"
)

// TestPlantedBugsAreFound checks that the simulator finds each planted bug within 200 seeds.
func TestPlantedBugsAreFound(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("takes minutes and needs -tags invariants")
	}
	seeds := planted.Read(t)
	for _, b := range []struct {
		name string
		bugs Bugs
	}{
		{"the log is not synced", Bugs{NoSync: true}},
		{"the log is cut without a sync of the state", Bugs{EarlyTruncation: true}},
		{"a snapshot has the wrong index", Bugs{WrongSnapshotIndex: true}},
		{"a lease is too long", Bugs{LongLease: true}},
		{"an entry is applied twice", Bugs{DoubleApply: true}},
		{"a proposal outlives its term", Bugs{StaleTerm: true}},
		{"what is unknown is taken for not done", Bugs{HastyFate: true}},
		{"a follower is read that is not fresh", Bugs{AnyFollower: true}},
		{"a lease is looked at before the question came", Bugs{EarlyClock: true}},
		{"an answer is used by reads that began after the question", Bugs{SharedAnswer: true}},
		{"a follower reads what it has not applied", Bugs{UnappliedRead: true}},
		{"a follower is told of a commit before its leader has applied it", Bugs{EarlyCommit: true}},
		{"a refused connection is taken for death", Bugs{RefusedIsDeath: true}},
		{"a vote is given against a promise", Bugs{BrokenPromise: true}},
		{"a promise is forgotten with the process", Bugs{ForgottenPromise: true}},
		{"a lease is used over a transfer of the leadership", Bugs{OfferUnderLease: true}},
		{"the commit index is not written with changes of members", Bugs{ForgottenCommit: true}},
	} {
		t.Run(b.name, func(t *testing.T) {
			seeds.Find(t, b.name, func(seed uint64) bool {
				r := run(t, Plan{Seed: seed, Bugs: b.bugs, ChangeCrashes: b.bugs.ForgottenCommit})
				if len(r.Failures) > 0 {
					t.Logf("found with seed %d after %v: %s", seed, r.Duration, r.Failures[0])
				}
				return len(r.Failures) > 0
			})
		})
	}
}

// TestNothingIsImitated checks that the simulator runs the product. The simulator's own code must not write logs,
// apply entries, or split groups, except in tests. The bugs in bugs.go must wrap product code.
func TestNothingIsImitated(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	imports := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			imports[strings.Trim(i.Path.Value, `"`)] = true
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || name == "bugs.go" {
				continue
			}
			for _, word := range []string{"Apply", "Split", "Append", "Truncate", "Entries", "Members", "Install",
				"Step"} {
				if fn.Name.Name == word {
					t.Errorf("%s defines %s: use the product's code instead", name, word)
				}
			}
		}
	}
	for _, want := range []string{"raftgroup", "raftlog"} {
		if !imports["github.com/ilion-db/ilion/internal/replica/"+want] {
			t.Errorf("the simulator does not run %s", want)
		}
	}
	for got := range imports {
		if strings.HasPrefix(got, "go.etcd.io/raft/v3") && !strings.HasSuffix(got, "/raftpb") {
			t.Errorf("the simulator must not import %s: consensus belongs to the product", got)
		}
	}
}
