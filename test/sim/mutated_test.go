// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package sim

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/sim/planted"
)

// TestMutationsAreFound proves that mistakes within the product, which cannot be planted around it, are found within
// 200 seeds: the simulator is built with changed source files. It takes compilations, so it is for runs with the laws.
func TestMutationsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles")
	}
	const partition, reconcile = "../../internal/replica/partition/", "../../internal/control/reconcile/"
	const merges = "Splits,Merges,Growth,Presses"
	const items = "../../internal/query/container/"
	seeds := planted.Read(t)
	for _, m := range []struct {
		name, only string
		edits      []planted.Edit
	}{
		{"stamps do not come over with a merge", merges + ",Jumps", []planted.Edit{
			{File: partition + "merge.go", Old: "next.stamp, next.schema = max(next.stamp, o.stamp), max(",
				New: "next.schema = max("},
		}},
		{"ids do not come over with a merge", merges, []planted.Edit{
			{File: partition + "merge.go", Old: "r.recent.join(&right.recent)\n", New: "\n"},
		}},
		{"the next epoch is taken for a split", "Splits", []planted.Edit{
			{File: reconcile + "split.go", Old: "recalled := span.Limit.Compare(p.Cut.At) != 0",
				New: "recalled := span.Limit.Compare(p.Cut.At) > 1"},
		}},
		{"transactions of a key do not wait for each other", "Transactions", []planted.Edit{
			{File: partition + "decide.go", Old: "stripeOf(m.Table, m.Token), r, m.Key, oneKey)",
				New: "stripeOf(m.Table, m.Token), r, append([]byte{byte(m.Dedupe.Sequence)}, m.Key...), oneKey)"},
		}},
		{"a transaction that is sent again is carried out again", "Transactions,Rough,Refusals", []planted.Edit{
			{File: partition + "decide.go", Old: "if d, err := r.repeated(m); d != nil || err != nil {",
				New: "if d, err := r.repeated(m); c.Program == nil && (d != nil || err != nil) {"},
		}},
		{"a change of a transaction is left out", "Transactions", []planted.Edit{
			{File: partition + "transaction.go", Old: "v.write(c, t.ops, ",
				New: "v.write(c, t.ops[:max(1, len(t.ops)-1)], "},
		}},
		{"requests for items of a key do not wait for each other", "Containers", []planted.Edit{
			{File: partition + "decide.go", Old: "stripeOf(m.Table, m.Token), r, m.Key, oneKey)",
				New: "stripeOf(m.Table, m.Token), r, append([]byte{byte(m.Dedupe.Sequence)}, m.Key...), oneKey)"},
		}},
		{"what a request for items has done before it failed is kept", "Containers", []planted.Edit{
			{File: items + "run.go", Old: "if err == nil && r.answer.failed < 0 {", New: "if err == nil {"},
		}},
		{"a request for items does not see what it has written", "Containers", []planted.Edit{
			{File: items + "transaction.go", Old: "if s := t.items[id]; s != nil {",
				New: "if s := t.items[id]; s != nil && !s.changed {"},
		}},
		{"the etags of items are not compared", "Containers", []planted.Edit{
			{File: items + "transaction.go", Old: "case !matches(quoted(op.IfMatch), etag):",
				New: "case op.IfMatch == `none`:"},
		}},
		{"the unique keys of stored items are not looked at", "Containers", []planted.Edit{
			{File: items + "unique.go", Old: "(other == nil || !other.changed) && has(f.body)",
				New: "(other == nil || !other.changed) && f.id == `` && has(f.body)"},
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			bin := planted.Mutated(t, m.edits...)
			seeds.Find(t, m.name, func(seed uint64) bool {
				out, err := exec.Command(bin, "-test.run=^TestSeeds$", "-sim.seeds=1", "-sim.only="+m.only,
					fmt.Sprint("-sim.seed=", seed)).CombinedOutput()
				if err != nil {
					said, _, _ := strings.Cut(string(out[max(0, strings.Index(string(out), "failures")):]), "\n")
					t.Logf("found with seed %d: %s", seed, said)
				}
				return err != nil
			})
		})
	}
}
