// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package sim

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/sim/planted"
)

// mistake is a named mutation of the product. name describes the mutation. only holds the faults that the simulator
// injects to find the mutation.
type mistake struct{ name, mistake, only string }

// TestMutationsAreFound checks that the simulator finds mutations of the product's source code within 200 seeds. The
// test compiles the simulator once with all mutations, and an environment variable selects one mutation. Because of
// the compilation, the test runs only in builds with invariant checks.
func TestMutationsAreFound(t *testing.T) {
	const merges = "Splits,Merges,Growth,MergeStress"
	const stragglers = "Stragglers,Batches,Schema"
	seeds := planted.Read(t)
	bin := planted.Build(t, edits()...)
	for _, m := range append([]mistake{
		{"stamps do not come over with a merge", "merged stamps", merges + ",Jumps"},
		{"ids do not come over with a merge", "merged ids", merges},
		{"the next epoch is taken for a split", "epoch", "Splits"},
		{"transactions of a key do not wait for each other", "latch", "Transactions"},
		{"a transaction that is sent again is carried out again", "repeats", "Transactions,Rough,Refusals"},
		{"a conditional is applied again after its record was swept", "late conditionals", stragglers},
		{"a part of a batch whose record was removed is applied again", "finished batches", stragglers},
		{"the records of parts of a batch are swept while it is recorded", "recorded parts", stragglers},
		{"a TRUNCATE that is sent again is carried out again", "truncations", stragglers},
		{"a change of a transaction is left out", "changes", "Transactions"},
		{"requests for items of a key do not wait for each other", "latch", "Containers"},
		{"what a request for items has done before it failed is kept", "halves", "Containers"},
		{"a request for items does not see what it has written", "own", "Containers"},
		{"the etags of items are not compared", "etags", "Containers"},
		{"the unique keys of stored items are not looked at", "unique", "Containers"},
		{"some entries of the index are left out", "entries", "Containers"},
		{"a sweep removes entries of the index that are true", "swept", "Containers"},
		{"a round of the change feed ends above the horizon", "horizon", "Containers"},
		{"a page of the change feed goes on at the beginning of its key", "places", "Containers"},
		{"replaced items do not come in the change feed", "replaced", "Containers"},
		{"deletions are not among all versions", "deletions", "Containers"},
		{"items with a time to live stay", "lives", "Containers"},
		{"the deletion of a key leaves its items", "clears", "Containers"},
		{"what a trigger makes of an item is not stored", "triggers", "Containers"},
		{"writes to a key with a feed do not wait for each other", "latch", "Feeds"},
		{"a write to a table with a feed that is sent again is carried out again", "repeats", "Feeds,Rough,Refusals"},
		{"a round of the feed of a table ends above the horizon", "horizon", "Feeds"},
		{"a page of the feed of a table goes on at the beginning of its key", "places", "Feeds"},
		{"deletions of rows are not among all changes", "unlogged deletions", "Feeds"},
		{"deletions of ranges are not among all changes", "ranges", "Feeds"},
		{"parts of batches are not among all changes", "parts", "Feeds"},
		{"an image before has what a range deletion hides", "covered", "Feeds"},
		{"a row keeps its earlier entry in the change log", "old entries", "Feeds"},
		{"the latest versions leave out static rows", "statics", "Feeds"},
		{"a sweep removes entries of the change log that are good", "swept changes", "Feeds"},
	}, viewMistakes()...) {
		t.Run(m.name, func(t *testing.T) {
			seeds.Find(t, m.name, func(seed uint64) bool {
				out, failed := bin.Seeds(m.mistake, seed, 1, "-sim.only="+m.only)
				if failed {
					said, _, _ := strings.Cut(out[max(0, strings.Index(out, "failures")):], "\n")
					t.Logf("found with seed %d: %s", seed, said)
				}
				return failed
			})
		})
	}
	for _, only := range []string{merges + ",Jumps", "Transactions,Containers", "Feeds,Splits,Merges",
		"Views,Splits,Merges", stragglers} {
		if out, failed := bin.Seeds("", 1, 2, "-sim.only="+only); failed {
			t.Errorf("without a mutation, %s: %s", only, out)
		}
	}
}
